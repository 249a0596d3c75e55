"""`worker`: takes sessions from a queue that machines share, and works on them."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from mainspring.app.operations.workers import DEFAULT_QUEUE, parse_labels, parse_queue, run_worker
from mainspring.cli.config import NO_GATEWAY, load_config
from mainspring.cli.system import need_custody
from mainspring.secrets.screen import plain


@click.command("worker")
@click.option("--queue", default=DEFAULT_QUEUE, show_default=True, help="The queue to take sessions from.")
@click.option("--labels", default="", metavar="WORDS", help="What this machine has: gpu,slurm.")
@click.option(
    "--capacity", type=click.IntRange(1, 256), default=2, show_default=True, help="Sessions at once."
)
@click.option(
    "--temporal/--no-temporal",
    "is_temporal",
    default=None,
    help="Whether Temporal says what to work on. Default: when temporal.address is set.",
)
@click.option("--once", "is_once", is_flag=True, help="Do what there is to do, wait for its end, and return.")
@NO_GATEWAY
def worker_command(
    queue: str, labels: str, capacity: int, *, is_temporal: bool | None, is_once: bool
) -> None:
    """Work on sessions and goals of the shared store: those that people put into a queue, that woke up, or
    whose worker is gone. A signal makes it give back what it does and end."""
    need_custody("A worker")

    def say(line: str) -> None:
        click.echo(plain(line), err=True)

    config, words = load_config(), parse_labels(labels)
    place: dict[str, Any] = {"queue": parse_queue(queue), "labels": words, "capacity": capacity}
    asyncio.run(run_worker(config, say, **place, is_once=is_once, is_temporal=is_temporal))

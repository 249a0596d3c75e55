"""`fleet`: the workers of all machines, what they do, and what waits for them."""

from __future__ import annotations

import asyncio

import click

from mainspring.app.operations.workers import (
    FleetRow,
    QueueRow,
    WorkerFleet,
    WorkerRow,
    drain_worker,
    fleet,
    move_session,
    parse_labels,
    retry_session,
)
from mainspring.cli.config import load_config
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import local_time, money
from mainspring.errors import UsageError
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain
from mainspring.settings import Config


@click.group("fleet", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
@click.pass_context
def fleet_command(context: click.Context, *, is_json: bool) -> None:
    """Show the workers of all machines, what they do, and the sessions that wait or were set aside."""
    if context.invoked_subcommand is None:
        config = load_config()
        found = asyncio.run(fleet(config))
        click.echo(json_line(found) if is_json else plain("\n".join(_lines(found, config))))


@fleet_command.command("drain")
@click.argument("worker")
def drain_command(worker: str) -> None:
    """Make WORKER give back what it does and end; others go on with it."""
    asyncio.run(drain_worker(load_config(), worker))
    click.echo("told; it ends when what it does is given back")


@fleet_command.command("retry")
@click.argument("session")
def retry_command(session: str) -> None:
    """Give a SESSION that was set aside, or that waits to be tried again, to workers at once."""
    click.echo(f"{asyncio.run(retry_session(load_config(), session))}: ready for a worker")


@fleet_command.command("move")
@click.argument("session")
@click.option("--queue", default="", metavar="NAME", help="Another queue.")
@click.option("--labels", metavar="WORDS", help='What the worker must have from now on; "" for nothing.')
def move_command(session: str, queue: str, labels: str | None) -> None:
    """Put SESSION into another queue, or ask for other labels. Who works on it now goes on with it."""
    if not queue and labels is None:
        raise UsageError("Nothing is to change.", remedy="Name a --queue, or --labels.")
    words = None if labels is None else parse_labels(labels)
    name = asyncio.run(move_session(load_config(), session, queue=queue, labels=words))
    click.echo(f"{name}: moved")


def _lines(found: WorkerFleet, config: Config) -> list[str]:
    lines = [_worker_line(each, found) for each in found.workers]
    if not lines:
        lines = ["No worker is running. Start one: mainspring worker"]
    queues = (_queue_line(each) for each in found.queues if each.at_work or each.waiting or each.set_aside)
    return [*lines, *queues, *(_session_line(each, config) for each in found.sessions)]


def _worker_line(worker: WorkerRow, found: WorkerFleet) -> str:
    busy = sum(each.worker == worker.id for each in found.sessions)
    labels = f" ({', '.join(worker.labels)})" if worker.labels else ""
    state = "draining" if worker.is_draining else f"{busy} of {worker.capacity} at work"
    if not worker.is_alive:
        state = f"not heard of for {worker.silent_s:.0f} s"
    return f"worker {worker.id}: queue {worker.queue}{labels}, {state}, version {worker.version}"


def _queue_line(queue: QueueRow) -> str:
    facts = [f"{queue.at_work} of {queue.capacity} at work" if queue.workers else "no worker"]
    if queue.waiting:
        facts.append(f"{queue.waiting} waiting, the longest for {queue.lag_s:.0f} s")
    if queue.set_aside:
        facts.append(f"{queue.set_aside} set aside")
    if queue.crashes:
        facts.append(plural(queue.crashes, "crash"))
    return f"queue {queue.queue}: {', '.join([*facts, money(queue.cost_usd)])}"


def _session_line(row: FleetRow, config: Config) -> str:
    where = row.worker or row.queue
    labels = f" ({', '.join(row.labels)})" if row.labels and not row.worker else ""
    facts = [f"for {row.person}" if row.person else "", money(row.cost_usd), row.title]
    if row.wake_us and not row.worker:
        facts.insert(0, f"until {local_time(row.wake_us, config.zone)}")
    if row.waits_s >= 1:
        facts.insert(0, f"for {row.waits_s:.0f} s")
    if row.crashes:
        facts.insert(0, plural(row.crashes, "crash"))
    if row.is_set_aside:
        facts.append(f"{row.detail}; mainspring fleet retry {row.session}")
    return f"  {row.session} {row.state}, {where}{labels}: {', '.join(filter(None, facts))}"

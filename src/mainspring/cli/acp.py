"""`acp`: mainspring as an agent in an editor, or in anything else that speaks the Agent Client Protocol."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import get_args

import click

from mainspring.app.modes import MODE_NAMES, RUNG_NAMES
from mainspring.cli.config import NO_GATEWAY, load_config
from mainspring.cli.options import POSITIVE
from mainspring.errors import UsageError
from mainspring.events import Effort, Limits


@click.command("acp")
@click.option("--model", "models", multiple=True, help="Model or tier; given again: a fallback.")
@click.option("--effort", type=click.Choice(get_args(Effort)), help="Reasoning effort of the model.")
@click.option("--mode", type=click.Choice(MODE_NAMES), default=None, help="What needs approval.")
@click.option("--sandbox", type=click.Choice(RUNG_NAMES), default=None, help="How to confine commands.")
@click.option("--engine", default="", help="Who takes the turns: builtin, codex, claude, …")
@click.option("--max-steps", type=click.IntRange(min=1), help="Maximum model requests in a turn.")
@click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost of a session, in US dollars.")
@click.option("--allow-unpriced", is_flag=True, help="Accept a model of unknown price under a cost limit.")
@NO_GATEWAY
def acp_command(
    models: tuple[str, ...],
    effort: Effort | None,
    mode: str | None,
    sandbox: str | None,
    engine: str,
    max_steps: int | None,
    max_cost_usd: float | None,
    *,
    allow_unpriced: bool,
) -> None:
    """Serve an editor that speaks the Agent Client Protocol, on standard input and output."""
    if find_spec("acp") is None:
        raise UsageError(
            "The Agent Client Protocol needs a package that is not installed.",
            remedy='Install it: pip install "mainspring[acp]".',
        )
    served = import_module("mainspring.protocols.acp.agent")
    options = served.AcpOptions(
        models=models,
        effort=effort,
        mode=mode or "",
        sandbox=sandbox or "",
        engine=engine,
        limits=Limits(max_steps=max_steps, max_cost_usd=max_cost_usd),
        allow_unpriced=allow_unpriced,
    )
    asyncio.run(served.serve_acp(load_config(), options))

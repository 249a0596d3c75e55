"""The options of a turn, which `run`, `resume` and other commands share."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from mainspring.app.modes import MODE_NAMES, RUNG_NAMES
from mainspring.cli.allow_home import ALLOW_HOME
from mainspring.cli.config import NO_GATEWAY, NOTIFY
from mainspring.cli.options import POSITIVE, with_options
from mainspring.events import Effort, Profile

turn_options = with_options(
    click.option("--json", "is_json", is_flag=True, help="Print one event per line as JSON."),
    click.option("--quiet", "is_quiet", is_flag=True, help="Print the answer alone, and what went wrong."),
    click.option(
        "--engine",
        default="",
        help="Who takes the turn: builtin, codex, claude, gemini, opencode, acp:COMMAND, exec:COMMAND.",
    ),
    click.option(
        "--model",
        "models",
        multiple=True,
        help="Model (anthropic/claude-…, provider@URL#name) or tier (fast). Given again: a fallback."
        " When turns keep failing, a stronger tier of [tiers] takes over; without [tiers] none does.",
    ),
    NO_GATEWAY,
    NOTIFY,
    click.option("--fallback", multiple=True, help="Model to use when the one before it fails."),
    click.option("--effort", type=click.Choice(get_args(Effort)), help="Reasoning effort of the model."),
    click.option(
        "--profile",
        type=click.Choice(get_args(Profile)),
        default=None,
        help="What the model can do: a small one gets few tools and short texts. By default by its size.",
    ),
    click.option(
        "--mode",
        type=click.Choice(MODE_NAMES),
        default=None,
        help="What needs approval, by name or as a level of autonomy.",
    ),
    click.option(
        "--sandbox",
        type=click.Choice(RUNG_NAMES),
        default=None,
        help="How to confine commands.",
    ),
    click.option(
        "--on",
        "machine",
        default="",
        metavar="NAME",
        help="Machine of [machines] that runs commands, over ssh.",
    ),
    click.option("--max-steps", type=click.IntRange(min=1), help="Maximum model requests in this turn."),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum tokens of the whole session."),
    click.option(
        "--max-cost-usd",
        type=POSITIVE,
        help="Maximum cost of the whole session, in US dollars.",
    ),
    click.option(
        "--max-cost-usd-today",
        type=POSITIVE,
        help="Maximum cost of all sessions together today (local time).",
    ),
    click.option("--max-calls", type=click.IntRange(min=1), help="Maximum tool calls in this turn."),
    click.option(
        "--allow-unpriced", is_flag=True, help="Accept a model of unknown price under a cost limit."
    ),
    ALLOW_HOME,
    click.option("--timeout", type=POSITIVE, help="Maximum duration of this turn, in seconds."),
    click.option(
        "--attach",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Image, PDF or text file to send with the message.",
    ),
    click.option("--output-schema", type=click.Path(path_type=Path), help="JSON schema of the answer."),
)

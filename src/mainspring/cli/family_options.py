"""Options of commands that have several sessions work side by side: how each is opened, and what all may use
together."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from mainspring.app.modes import MODE_NAMES, RUNG_NAMES
from mainspring.cli.allow_home import ALLOW_HOME
from mainspring.cli.config import NO_GATEWAY
from mainspring.cli.options import POSITIVE
from mainspring.events import Effort

FAMILY_OPTIONS = (
    NO_GATEWAY,
    click.option("--effort", type=click.Choice(get_args(Effort)), help="Reasoning effort of the models."),
    click.option("--mode", type=click.Choice(MODE_NAMES), default=None, help="What needs approval."),
    click.option("--sandbox", type=click.Choice(RUNG_NAMES), default=None, help="How to confine commands."),
    click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost of all together, in US dollars."),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum tokens of all together."),
    click.option(
        "--allow-unpriced", is_flag=True, help="Accept a model of unknown price under a cost limit."
    ),
    ALLOW_HOME,
)
OUTPUT_OPTIONS = (
    click.option("--json", "is_json", is_flag=True, help="Print the result as JSON."),
    click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="The workspace."),
)

"""`--queue NAME --labels WORDS`. What they ask for (`queued.py`) is loaded once one of them is given."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource

from mainspring.cli.config import refuse_no_gateway
from mainspring.cli.options import with_options
from mainspring.errors import UsageError


def _named(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuses an empty name, as that of a variable which is not set: the work would be done here."""
    if not value and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
        raise UsageError("--queue names no queue.", remedy="Name one, or leave --queue out.")
    return value


queue_options = with_options(
    click.option(
        "--queue", default="", metavar="NAME", callback=_named, help="Leave it to a worker; print its id."
    ),
    click.option("--labels", default="", metavar="WORDS", help="What the worker must have: gpu,slurm."),
)


def queue_place(queue: str, labels: str, *, is_queued: bool = False, **options: Any) -> Any:
    """The place in a queue that the options ask for; None when they ask for none."""
    if not (queue or labels or is_queued):
        return None
    refuse_no_gateway()
    return import_module("mainspring.cli.queued").place_of(queue, labels, is_queued=is_queued, **options)


def leave_control(place: Any, **options: Any) -> Any:
    """Who leaves a turn to a worker, unless an option is given that only the process here could obey."""
    queued = import_module("mainspring.cli.queued")
    queued.refuse_here(place, **options)
    return queued.LeaveControl(place)

"""Says at the start of work what does not work on this system."""

from __future__ import annotations

import click

from mainspring.errors import SandboxError
from mainspring.system import this_system


def say_limits() -> None:
    """One note on standard error; nothing on Linux, where everything works, nor where no session can be
    written at all, which is an error with the same words."""
    here = this_system()
    if here.limits and here.has_locks:
        click.echo(f"note: {here.limits} {here.remedy}", err=True)


def need_custody(what: str) -> None:
    """Refuses what is nothing without commands, before it begins."""
    here = this_system()
    if not here.has_custody:
        raise SandboxError(f"{what} needs commands, which do not run on {here.name} yet.", remedy=here.remedy)

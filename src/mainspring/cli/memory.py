"""`memory`: what is remembered about a project."""

from __future__ import annotations

from pathlib import Path

import click

from mainspring.app.building import memory_of
from mainspring.approvals.screen import plain
from mainspring.config import load_config
from mainspring.workspace.memory import Memory

_FOLDER = click.option(
    "-C", "folder", type=click.Path(path_type=Path), default=Path(), help="A folder of the project."
)


@click.group("memory", invoke_without_command=True)
@_FOLDER
@click.pass_context
def memory_command(context: click.Context, folder: Path) -> None:
    """Show, add to or shorten what is remembered about a project."""
    context.obj = memory_of(folder.expanduser().resolve(), load_config())
    if context.invoked_subcommand is None:
        _show(context.obj)


@memory_command.command("show")
@click.pass_obj
def show(memory: Memory) -> None:
    """Show it, with numbers and where each line came from."""
    _show(memory)


@memory_command.command("add")
@click.argument("text")
@click.pass_obj
def add(memory: Memory, text: str) -> None:
    """Remember TEXT."""
    for gone in memory.add(text, "user"):
        click.echo(plain(f"forgotten to make room: {gone.text}"), err=True)


@memory_command.command("forget")
@click.argument("number", type=int)
@click.pass_obj
def forget(memory: Memory, number: int) -> None:
    """Forget the line NUMBER."""
    click.echo(plain(f"forgotten: {memory.forget(number).text}"))


def _show(memory: Memory) -> None:
    remarks = memory.load()
    for number, remark in enumerate(remarks, 1):
        click.echo(plain(f"{number:>3}  {remark.text}" + (f"  ({remark.source})" if remark.source else "")))
    click.echo(f"{memory.path}" if remarks else f"Nothing yet: {memory.path}", err=True)

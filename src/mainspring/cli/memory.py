"""`memory`: what is remembered about a project."""

from __future__ import annotations

from pathlib import Path

import click

from mainspring.app.operations.memory import forget, load_memory, remember
from mainspring.cli.config import load_config
from mainspring.secrets.screen import plain

_FOLDER = click.option(
    "-C", "folder", type=click.Path(path_type=Path), default=Path(), help="A folder of the project."
)


@click.group("memory", invoke_without_command=True)
@_FOLDER
@click.pass_context
def memory_command(context: click.Context, folder: Path) -> None:
    """Show, add to or shorten what is remembered about a project."""
    context.obj = folder
    if context.invoked_subcommand is None:
        _show(folder)


@memory_command.command("show")
@click.pass_obj
def show_command(folder: Path) -> None:
    """Show the lines, with their numbers and where each came from."""
    _show(folder)


@memory_command.command("add")
@click.argument("text")
@click.pass_obj
def add_command(folder: Path, text: str) -> None:
    """Remember TEXT."""
    for gone in remember(load_config(), folder, text):
        click.echo(plain(f"forgotten because memory is full: {gone.text}"), err=True)
    click.echo(plain(f"remembered: {text}"))


@memory_command.command("forget")
@click.argument("number", type=int)
@click.pass_obj
def forget_command(folder: Path, number: int) -> None:
    """Forget the line NUMBER."""
    click.echo(plain(f"forgotten: {forget(load_config(), folder, number).text}"))


def _show(folder: Path) -> None:
    memory = load_memory(load_config(), folder)
    for number, remark in enumerate(memory.remarks, 1):
        click.echo(plain(f"{number:>3}  {remark.text}" + (f"  ({remark.source})" if remark.source else "")))
    click.echo(f"{memory.path}" if memory.remarks else f"Nothing yet: {memory.path}", err=True)

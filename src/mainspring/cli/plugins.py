"""`plugins`: what packages and folders of other people add to mainspring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from mainspring.app.operations.plugins import (
    PluginEntry,
    add_folder,
    begin_plugin,
    fetched_plugin,
    is_package,
    list_plugins,
    package_of,
    remove_folder,
    waiting_folders,
)
from mainspring.app.operations.trust import approve
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.streams import is_person_there
from mainspring.cli.trust import described
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain

_folder = click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The project."
)
_yes = click.option("--yes", "is_yes", is_flag=True, help="Do not ask: you know what it holds.")


@click.group("plugins")
def plugins_command() -> None:
    """What packages and folders add to mainspring. A package is code that runs in mainspring itself, with
    your rights; what a folder brings is approved as it is."""


@plugins_command.command("list")
@_folder
@click.option("--json", "is_json", is_flag=True, help="Print one plugin per line as JSON.")
def list_command(folder: Path, *, is_json: bool) -> None:
    """List the plugins, what each brings, and those that cannot be used."""
    found = list_plugins(load_config_or_defaults(), folder.resolve())
    for each in found:
        click.echo(json_line(each) if is_json else plain(_line(each)))
    if not found and not is_json:
        click.echo(
            "No plugins. `mainspring plugins add` takes a folder, a repository or a package.", err=True
        )


@plugins_command.command("add")
@click.argument("source")
@_yes
def add_command(source: str, *, is_yes: bool) -> None:
    """Add a plugin: a folder or git repository, which is copied, or a Python package, which pip installs
    beside mainspring. What a folder holds, or what changed in it, is shown first."""
    config = load_config()
    if is_package(source):
        _agreed(
            f"pip installs {source}: its code will run inside mainspring, with your rights.", is_yes=is_yes
        )
        _pip("install", source)
        return
    with fetched_plugin(config, source) as fetched:
        if fetched.entry.state == "trusted" and fetched.target.is_dir():
            click.echo(f"{plain(fetched.folder.name)} is there already, as it is.")
            return
        _agreed("\n".join(described(fetched.entry)), is_yes=is_yes)
        add_folder(config, fetched)
        click.echo(plain(f"added {fetched.folder.name} ({fetched.target})"))


@plugins_command.command("remove")
@click.argument("name")
@_yes
def remove_command(name: str, *, is_yes: bool) -> None:
    """Remove a plugin: its copy, or the package that it comes from."""
    config = load_config()
    if removed := remove_folder(config, name):
        click.echo(plain(f"removed {removed}"))
        return
    package = package_of(config, name)
    _agreed(f"pip uninstalls {package}.", is_yes=is_yes)
    _pip("uninstall", "--yes", package)


@plugins_command.command("trust")
@click.argument("name", default="")
@_folder
def trust_folders_command(name: str, folder: Path) -> None:
    """Approve the plugin folders that a project brings or that changed, or only NAME, after showing them.
    Needs a person at a terminal."""
    config = load_config()
    waiting = waiting_folders(config, folder.resolve(), name)
    for entry in waiting:
        _agreed("\n".join(described(entry)), is_yes=False)
        approve(config, entry.subject)
        click.echo("approved")
    if not waiting:
        click.echo("Nothing waits for approval here.", err=True)


@plugins_command.command("new")
@click.argument("name")
@_folder
def new_command(name: str, folder: Path) -> None:
    """Begin a plugin of your own: a package with a tool, a command, a check, and tests that pass."""
    made = begin_plugin(name, folder.resolve())
    click.echo(plain(f"made {made}"))
    click.echo(plain(f"  try it: pip install -e {made} && mainspring plugins list && pytest {made}"))


def _agreed(shown: str, *, is_yes: bool) -> None:
    """Returns when a person said yes."""
    click.echo(plain(shown))
    if is_yes:
        return
    if not is_person_there():
        raise UsageError("Only a person at a terminal can approve this.", remedy="Run it in a terminal.")
    if not click.confirm("Go on?", default=False):
        raise click.Abort


def _pip(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], check=False)
    if done.returncode:
        raise UsageError(
            f"pip {arguments[0]} did not work (exit code {done.returncode}).",
            remedy="A mainspring of uv or pipx takes it with `uv tool install --with` or `pipx inject`.",
        )


def _line(entry: PluginEntry) -> str:
    head = " ".join(filter(None, (entry.name, entry.version)))
    return f"{head}  {entry.state}  {entry.problem or ', '.join(entry.brings) or 'nothing'}  ({entry.source})"

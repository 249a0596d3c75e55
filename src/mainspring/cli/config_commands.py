"""`config`: the settings with where each comes from, and changing them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from mainspring.app.operations.settings import (
    SettingProblem,
    SettingValue,
    check_settings,
    get_setting,
    list_settings,
    replace_settings,
    set_setting,
    settings_file,
    unset_setting,
)
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.options import with_options
from mainspring.cli.streams import is_person_there
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain
from mainspring.settings import settings_text

_PROJECT = click.option(
    "--project", "is_project", is_flag=True, help="Your settings for this project alone, not for all."
)
_JSON = click.option("--json", "is_json", is_flag=True, help="Print one setting per line as JSON.")
_flags = with_options(
    click.option("--model", help="As `run --model` would have it."),
    click.option("--mode", help="As `run --mode` would have it."),
    click.option("--effort", help="As `run --effort` would have it."),
)


@click.group("config", invoke_without_command=True)
@click.pass_context
def config_command(context: click.Context) -> None:
    """List and change settings. A key is written with its tables: caps.turn.usd."""
    if context.invoked_subcommand is None:
        context.invoke(list_command)


@config_command.command("list")
@click.option("--all", "is_all", is_flag=True, help="Also list settings that have their default.")
@_JSON
@_flags
def list_command(*, is_all: bool = False, is_json: bool = False, **flags: str | None) -> None:
    """List the settings for work in this folder, with where each comes from."""
    rows = list_settings(load_config_or_defaults(), Path.cwd(), _given(flags))
    shown = [row for row in rows if is_all or is_json or row.origin != "default"]
    _print(shown, is_json=is_json)
    if not is_json and len(shown) < len(rows):
        click.echo(f"({len(rows) - len(shown)} more have their default: --all)", err=True)


@config_command.command("get")
@click.argument("key")
@_JSON
@_flags
def get_command(key: str, *, is_json: bool, **flags: str | None) -> None:
    """Print the value of KEY, or of every setting in the table KEY."""
    rows = get_setting(load_config_or_defaults(), Path.cwd(), key, _given(flags))
    row = next((each for each in rows if each.key == key), None)
    if is_json or row is None:
        _print(rows, is_json=is_json)
        return
    click.echo(plain(row.value if isinstance(row.value, str) else _shown(row.value)))
    click.echo(plain(f"from {_from(row)}"), err=True)


@config_command.command("set", context_settings={"ignore_unknown_options": True})  # a value may be -1
@click.argument("key")
@click.argument("value")
@_PROJECT
def set_command(key: str, value: str, *, is_project: bool) -> None:
    """Set KEY to VALUE, written as in TOML; a text needs no quotes. Comments in the file stay, and a value
    that would not be valid is not written."""
    changed = set_setting(load_config(), key, value, project=_project(is_project=is_project))
    click.echo(plain(f"{changed.key} = {_shown(changed.after)}  (was {_shown(changed.before)})"), err=True)
    click.echo(plain(f"in {changed.file}"), err=True)


@config_command.command("unset")
@click.argument("key")
@_PROJECT
def unset_command(key: str, *, is_project: bool) -> None:
    """Take KEY out of the file, so that its default, or your setting for all projects, counts."""
    changed = unset_setting(load_config(), key, project=_project(is_project=is_project))
    click.echo(plain(f"{changed.key} is no longer set (was {_shown(changed.before)})"), err=True)
    click.echo(plain(f"in {changed.file}"), err=True)


@config_command.command("edit")
@_PROJECT
def edit_command(*, is_project: bool) -> None:
    """Edit the file with $VISUAL or $EDITOR. It is checked before it replaces the one in use."""
    config, project = load_config(is_config_optional=True), _project(is_project=is_project)
    file = settings_file(config, project)
    if not is_person_there():
        raise UsageError("An editor needs a terminal.", remedy=f"Use config set, or change {file} yourself.")
    before = text = settings_text(file)
    while True:
        edited = click.edit(text, extension=".toml")
        if edited is None or edited == before:
            click.echo("nothing was changed", err=True)
            return
        problems = check_settings(edited, file, is_project=is_project)
        if not problems:
            break
        _print_problems(problems, file)
        click.confirm("Edit again? (no: nothing is changed)", default=True, abort=True, err=True)
        text = edited
    click.echo(plain(f"changed {replace_settings(config, before, edited, project=project)}"), err=True)


@config_command.command("validate")
@_PROJECT
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
def validate_command(file: Path | None, *, is_project: bool) -> None:
    """Say what is wrong in the settings, or in FILE, with line numbers. The exit code is 1 when something
    is."""
    path = file or settings_file(load_config(is_config_optional=True), _project(is_project=is_project))
    problems = check_settings(settings_text(path), path, is_project=is_project)
    _print_problems(problems, path)
    if not problems:
        click.echo(plain(f"{path} is valid" if path.exists() else f"{path} is not there"), err=True)
    sys.exit(1 if problems else 0)


def _print(rows: list[SettingValue] | tuple[SettingValue, ...], *, is_json: bool) -> None:
    width = min(max((len(row.key) for row in rows), default=0), 40)
    for row in rows:
        if is_json:
            click.echo(json_line(row))
        else:
            click.echo(plain(f"{row.key:<{width}} = {_shown(row.value)}  ({_from(row)})"))


def _print_problems(problems: tuple[SettingProblem, ...], file: Path) -> None:
    for each in problems:
        click.echo(
            plain(f"{file}:{each.line}: {each.said}" if each.line else f"{file}: {each.said}"), err=True
        )


def _from(row: SettingValue) -> str:
    words = {"user": "", "project": "project: ", "environment": "environment: "}
    return f"{words[row.origin]}{row.source}" if row.origin in words else row.origin


def _shown(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _given(flags: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in flags.items() if value}


def _project(*, is_project: bool) -> Path | None:
    return Path.cwd() if is_project else None

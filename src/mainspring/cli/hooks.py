"""`hooks`: which hooks there are for work in a folder, what one would say, and what they said."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from mainspring.app.operations.hooks import event_named, hook_cost, hook_log, list_hooks, try_hooks
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import when
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain, plain_name

_folder = click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The project."
)
_json = click.option("--json", "is_json", is_flag=True, help="Print one hook per line as JSON.")


@click.group("hooks")
def hooks_command() -> None:
    """Commands of yours that run when something happens, and may have a say in it."""


@hooks_command.command("list")
@_folder
@_json
def list_command(folder: Path, *, is_json: bool) -> None:
    """List the hooks for work in this folder: event, matcher, command, file, and whether they are used."""
    found = list_hooks(load_config_or_defaults(), folder.resolve())
    for each in found:
        about = f"{each.event} {each.matcher or '*'}: {each.command}" if each.event else "this file"
        why = f", {each.problem}" if each.problem else ""
        line = plain_name(f"{each.state}  {about}  ({each.source}{why})")
        click.echo(json_line(each) if is_json else line)
    if not is_json and any(each.state in ("new", "changed") for each in found):
        click.echo("`mainspring trust add` shows and approves those that are new or changed.", err=True)
    if not (found or is_json):
        click.echo("No hooks: they stand in hooks.json of your settings, or of .mainspring/.", err=True)


@hooks_command.command("test")
@click.argument("event")
@click.option("--tool", default="", help="The tool of the call, as Bash or shell.")
@click.option(
    "--input", "given", default="{}", help="The call's arguments, or what the event is about, as JSON."
)
@_folder
@_json
def test_command(event: str, tool: str, given: str, folder: Path, *, is_json: bool) -> None:
    """Run the approved hooks of EVENT as a session would, and show what they say. Nothing is recorded."""
    config, workspace = load_config(), folder.resolve()
    tried = asyncio.run(try_hooks(config, workspace, event_named(event), tool=tool, given=_object(given)))
    for each in tried:
        said = "; ".join(filter(None, (each.reason, each.context, each.message)))
        verdict = (
            f"{each.verdict}, so refused" if each.is_refusing and each.verdict == "failed" else each.verdict
        )
        line = f"{verdict}  {each.duration_s * 1000:.0f} ms  {plain_name(each.command)}"
        click.echo(json_line(each) if is_json else plain(f"{line}\n  {said}" if said else line))
    if not (tried or is_json):
        click.echo("No approved hook is for this. `mainspring hooks list` lists them.", err=True)


@hooks_command.command("log")
@click.argument("session", default="")
@click.option("--limit", default=50, show_default=True, help="Runs at most, the newest.")
@_json
def log_command(session: str, limit: int, *, is_json: bool) -> None:
    """Show what hooks said in SESSION, or in the newest sessions, and what they took."""
    config = load_config_or_defaults()
    found = asyncio.run(hook_log(config, session, limit=limit))
    for each in found:
        about = f"{each.event} {each.tool}".strip()
        why = f": {each.reason}" if each.reason else ""
        line = f"{when(each.time_us)}  {each.session[:8]}  {about}  {each.verdict}"
        line += f"  {each.duration_s * 1000:.0f} ms  {each.command}{why}"
        click.echo(json_line(each) if is_json else plain_name(line))
    if not is_json:
        cost = asyncio.run(hook_cost(config))
        text = f"{cost.runs} runs in {cost.turns} turns, {cost.per_turn_s * 1000:.0f} ms a turn."
        click.echo(text if cost.runs else "No hook has run.", err=True)


def _object(text: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--input is no JSON: {error}.") from error
    if not isinstance(found, dict):
        raise UsageError("--input must be a JSON object.", remedy="""As in --input '{"command": "ls"}'.""")
    return found  # pyright: ignore[reportUnknownVariableType]

"""`trust`: what projects bring that runs on this machine, and what people approved of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from mainspring.app.operations.import_settling import trust_import
from mainspring.app.operations.trust import (
    TrustEntry,
    approve,
    brought_by,
    list_trusted,
    revoke_trust,
    trust_of,
)
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.streams import is_person_there
from mainspring.documents.figures import when
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain

_folder = click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The project."
)


@click.group("trust")
def trust_command() -> None:
    """What projects bring that runs on this machine: MCP servers, hooks, commands that run something,
    linters. Each is approved once for its content."""


@trust_command.command("list")
@click.option("--json", "is_json", is_flag=True, help="Print one approval per line as JSON.")
def list_command(*, is_json: bool) -> None:
    """List what was approved: kind, name, file, hash, when."""
    found = list_trusted(load_config_or_defaults())
    for each in found:
        what = f"{each.kind}  {each.name}  {each.path}"
        line = f"{each.id}  {what}  sha256:{each.sha256[:12]}  {when(each.given_us)}"
        click.echo(json_line(each) if is_json else plain(line))
    if not found and not is_json:
        click.echo("Nothing was approved. `mainspring trust add` shows what this project brings.", err=True)


@trust_command.command("show")
@click.argument("trust_id", metavar="ID", default="")
@_folder
def show_command(trust_id: str, folder: Path) -> None:
    """Show the text that approval ID was given for; without ID, what this project brings and what changed."""
    config = load_config_or_defaults()
    if trust_id:
        found = trust_of(config, trust_id)
        click.echo(plain(f"{found.kind} {found.name} of {found.path}, approved {when(found.given_us)}"))
        click.echo(plain(found.text))
        return
    for entry in brought_by(config, folder.resolve()):
        click.echo(plain("\n".join(described(entry))))


@trust_command.command("add")
@click.argument("name", default="")
@_folder
def add_command(name: str, folder: Path) -> None:
    """Approve what this project brings, or only NAME, after showing it. Needs a person at a terminal."""
    config = load_config()
    waiting = [entry for entry in brought_by(config, folder.resolve()) if entry.state != "trusted"]
    chosen = [entry for entry in waiting if name in ("", entry.subject.name)]
    if not chosen:
        click.echo("Nothing waits for approval here.", err=True)
        return
    if not is_person_there():
        raise UsageError("Only a person at a terminal can approve this.", remedy="Run it in a terminal.")
    for entry in chosen:
        click.echo(plain("\n".join(described(entry))))
        if click.confirm(f"Approve {plain(entry.subject.name)}?", default=False):
            approve(config, entry.subject)
            click.echo("approved")


@trust_command.command("session")
@click.argument("session")
def session_command(session: str) -> None:
    """Let an imported SESSION go on as its journal says: with its folder, mode, engine, machine and caps, and
    with the commands that its goal or fix runs. Needs a person at a terminal; `import --trust` does not."""
    if not is_person_there():
        raise UsageError("Only a person at a terminal can say this.", remedy="Run it in a terminal.")
    config = load_config()
    click.echo(f"`mainspring show {session}` lists what it would go on with.")
    if click.confirm(f"Trust the journal of {plain(session)}?", default=False):
        click.echo(f"trusted: {asyncio.run(trust_import(config, session))}")


@trust_command.command("revoke")
@click.argument("trust_id", metavar="ID")
def revoke_command(trust_id: str) -> None:
    """Take an approval back; it counts when the next session is opened."""
    found = revoke_trust(load_config(), trust_id)
    click.echo(plain(f"revoked {found.kind} {found.name} of {found.path}"))


def described(entry: TrustEntry) -> list[str]:
    """What a person sees before they say yes."""
    subject = entry.subject
    head = f"{subject.kind} {subject.name} of {subject.path} ({entry.state}, sha256:{subject.sha256[:12]})"
    return [head, *(f"  {line}" for line in (entry.diff or subject.text).splitlines())]

"""`artifacts`: named outputs of sessions, kept by content in versions, and the files that a goal made."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from mainspring.app.operations.artifacts import Artifact, artifacts_of
from mainspring.app.operations.kept_artifacts import (
    KeptVersion,
    artifact_content,
    diff_artifact,
    export_artifacts,
    kept_artifacts,
    newest_keeping,
    read_artifact_file,
    save_artifact,
    search_artifacts,
)
from mainspring.cli.config import load_config, load_config_or_defaults, newest_here
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import when
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain, plain_name
from mainspring.settings import Config

_SHOWN = 100
_SESSION = click.option("--session", default="", help="The session; by default the newest that fits.")
_JSON = click.option("--json", "is_json", is_flag=True, help="Print one artifact per line as JSON.")


class _Artifacts(click.Group):
    """`mainspring artifacts SESSION` lists, as it always did."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("artifacts", cls=_Artifacts)
def artifacts_command() -> None:
    """Keep outputs of a session by name and version, and list the files that a goal made."""


@artifacts_command.command("list")
@click.argument("session", default="")
@_JSON
@click.option("--all", "is_all", is_flag=True, help="Also what was there before, and what is gone.")
def list_command(session: str, *, is_json: bool, is_all: bool) -> None:
    """List what SESSION (by default the newest) keeps: saved outputs with their versions, and the files of
    its goal with size, hash, iteration and command."""
    config = load_config_or_defaults()
    found = asyncio.run(artifacts_of(config, session))
    saved = [each for each in asyncio.run(kept_artifacts(config, found.session)) if each.by == "person"]
    for each in saved:
        click.echo(json_line(each) if is_json else plain_name(_version_line(each)))
    rows = found.all if is_all else found.made
    shown = rows if is_all or is_json else rows[:_SHOWN]
    for row in shown:
        click.echo(json_line(row) if is_json else plain_name(_line(row)))
    if len(shown) < len(rows):
        click.echo(f"{len(rows) - len(shown):,} more: mainspring artifacts {found.session} --all", err=True)
    if not rows and not saved and not is_json:
        click.echo(f"Session {found.session} has no artifacts.", err=True)


@artifacts_command.command("save")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@_SESSION
@click.option("--name", default="", help="Its name; by default that of the file.")
@click.option("--note", default="", help="What it is.")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def save_command(file: Path, *, session: str, name: str, note: str, is_json: bool) -> None:
    """Keep FILE (- reads standard input) in a session, by default the newest of this folder. The same name
    again is its next version."""
    config = load_config()
    data = sys.stdin.buffer.read() if str(file) == "-" else read_artifact_file(file)
    if not name and str(file) == "-":
        raise UsageError("What is read from standard input needs a --name.")
    session = session or newest_here(config)
    source = "" if str(file) == "-" else str(file)
    kept = asyncio.run(save_artifact(config, session, name or file.name, data, note=note, source=source))
    click.echo(json_line(kept) if is_json else plain_name(_version_line(kept)))


@artifacts_command.command("show")
@click.argument("name")
@_SESSION
@click.option("--version", type=click.IntRange(min=1), help="Which one; by default the newest.")
def show_command(name: str, *, session: str, version: int | None) -> None:
    """Print the content of the artifact NAME."""
    config = load_config_or_defaults()
    found = asyncio.run(artifact_content(config, _keeping(config, session, name), name, version))
    if not sys.stdout.isatty():
        click.echo(found.data, nl=False)
    elif found.version.blob.media_type == "application/octet-stream" or b"\0" in found.data:
        click.echo(plain_name(_version_line(found.version)))
        click.echo("These are no text. Write them to a file with `>`.", err=True)
    else:
        click.echo(plain(found.data.decode("utf-8", "replace")))


@artifacts_command.command("diff")
@click.argument("name")
@click.argument("old", type=int, required=False)
@click.argument("new", type=int, required=False)
@_SESSION
def diff_command(name: str, old: int | None, new: int | None, *, session: str) -> None:
    """Compare two versions of the artifact NAME, by default the last two."""
    config = load_config_or_defaults()
    session = _keeping(config, session, name)
    for line in asyncio.run(diff_artifact(config, session, name, old, new)):
        click.echo(plain(line.rstrip("\n")))


@artifacts_command.command("search")
@click.argument("words")
@_SESSION
@_JSON
def search_command(words: str, *, session: str, is_json: bool) -> None:
    """Find artifacts of all sessions by name, note or text."""
    found = asyncio.run(search_artifacts(load_config_or_defaults(), words, session))
    for each in found:
        line = f"{each.version.session}  {_version_line(each.version)}  {each.line}".rstrip()
        click.echo(json_line(each) if is_json else plain_name(line))
    if not found and not is_json:
        click.echo("No artifact has these words.", err=True)


@artifacts_command.command("export")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1)
@_SESSION
def export_command(folder: Path, names: tuple[str, ...], *, session: str) -> None:
    """Write the newest versions of a session's artifacts, or of NAMES, into FOLDER, with `artifacts.json`."""
    config = load_config_or_defaults()
    session = _keeping(config, session, names[0] if names else "")
    written = asyncio.run(export_artifacts(config, session, folder, names))
    for path in written:
        click.echo(plain_name(str(path)))
    if not written:
        click.echo(f"Session {session} keeps no artifacts.", err=True)


def _keeping(config: Config, session: str, name: str) -> str:
    return session or asyncio.run(newest_keeping(config, name))


def _version_line(each: KeptVersion) -> str:
    note = f"  {each.note}" if each.note else ""
    return (
        f"{each.name}  version {each.version}  {each.blob.size:,} B  {each.blob.sha256[:12]}"
        f"  {when(each.time_us)}{note}"
    )


def _line(row: Artifact) -> str:
    sha256 = row.sha256[:12] or "-"
    gone = " (gone)" if row.is_deleted else ""
    moved = f" (was {row.renamed_from})" if row.renamed_from else ""
    since = when(row.mtime_us) if row.mtime_us else "-"
    line = f"{row.path}{moved}{gone}  {row.size:,} B  {sha256}  {since}  iteration {row.iteration}"
    return f"{line}  {row.made_by}".rstrip()

"""`index`: what a repository holds, found by name, by use and by text, and drawn as a map."""

from __future__ import annotations

import asyncio
import math
import sys
from pathlib import Path
from typing import Any

import click

from mainspring.app.operations import index as operations
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.options import POSITIVE
from mainspring.events.counts import plural, readable_bytes
from mainspring.secrets.screen import plain

_SHOWN = 40
_MAX_TEXT = 200

_folder = click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The project."
)
_json = click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")


@click.group("index", invoke_without_command=True)
@_folder
@_json
@click.option("--max-seconds", type=POSITIVE, help="Leave the rest for the next time after so long.")
@click.pass_context
def index_command(ctx: click.Context, folder: Path, *, is_json: bool, max_seconds: float | None) -> None:
    """Bring the index of this repository up to date: symbols, uses, imports, comments about them, and text of
    documents. It is kept in the data folder, never in the project; ignored and hidden files are left out.
    The first time reads every file, later ones only what changed."""
    if ctx.invoked_subcommand is not None:
        return
    config = load_config_or_defaults()
    is_shown = sys.stderr.isatty() and not is_json
    done = asyncio.run(
        operations.update_index(config, folder, _progress if is_shown else _nothing, max_seconds or math.inf)
    )
    if is_shown:
        click.echo("\r\033[K", err=True, nl=False)
    if is_json:
        click.echo(json_line(done))
        return
    if done.change.is_busy:
        click.echo("Another process updates this index at the moment.")
    else:
        click.echo(
            f"read {plural(done.change.read, 'file')}, removed {done.change.removed}, in {done.seconds:.1f} s"
        )
    _show(_status_lines(done.status))


@index_command.command("status")
@_folder
@_json
def _status(folder: Path, *, is_json: bool) -> None:
    """Show what the index holds, and which files it could not read."""
    found = operations.index_status(load_config_or_defaults(), folder)
    _show([json_line(found)] if is_json else _status_lines(found))


@index_command.command("find")
@click.argument("words", nargs=-1, required=True)
@_folder
@_json
def _find(words: tuple[str, ...], folder: Path, *, is_json: bool) -> None:
    """Find symbols whose name holds WORDS, and comments and documents that hold all of them. `Class.method`
    names a method. The exit code is 1 when nothing is found."""
    found = operations.find_in_index(load_config_or_defaults(), folder, " ".join(words))
    if is_json:
        click.echo(json_line(found))
    else:
        symbols = [f"{each.path}:{each.line}: {_of(each)}" for each in found.symbols]
        passages = [
            f"{each.path}:{each.line}: {each.title and f'{each.title}: '}{_flat(each.text)}"
            for each in found.passages
        ]
        _show(_listed(symbols) + _listed(passages) or ["Nothing has these words."])
    if not found.symbols and not found.passages:
        raise SystemExit(1)


@index_command.command("uses")
@click.argument("name")
@_folder
@_json
def _uses(name: str, folder: Path, *, is_json: bool) -> None:
    """List the files and lines in which NAME stands in code, whatever it means there. The exit code is 1 when
    it stands nowhere."""
    found = operations.uses_of(load_config_or_defaults(), folder, name)
    lines = [f"{each.path}: {', '.join(map(str, each.lines))}" for each in found]
    _show([json_line(found)] if is_json else lines or [f"{name} stands nowhere."])
    if not found:
        raise SystemExit(1)


@index_command.command("map")
@click.option("--tokens", type=click.IntRange(50), default=operations.MAP_TOKENS, help="At most so many.")
@click.option("--about", default="", metavar="WORDS", help="Lift what has these words in its names.")
@_folder
@_json
def _map(tokens: int, about: str, folder: Path, *, is_json: bool) -> None:
    """Show the files and symbols that most of this repository uses, within a number of tokens."""
    found = operations.map_of(load_config_or_defaults(), folder, tokens=tokens, about=about)
    nothing = f"Nothing here uses anything else, or {tokens} tokens are too few for a line of it."
    _show([json_line(found)] if is_json else (found.text or nothing).split("\n"))


@index_command.command("conventions")
@_folder
@_json
def _conventions(folder: Path, *, is_json: bool) -> None:
    """Show what is usual in this repository, counted and with examples: tests, names, imports, commits."""
    found = operations.conventions_of(load_config_or_defaults(), folder)
    lines = [
        f"{each.about}: {each.text} ({each.count} of {each.total}), such as {'; '.join(each.examples)}"
        for each in found
    ]
    _show([json_line(found)] if is_json else lines or ["There is too little here to say what is usual."])


@index_command.command("hotspots")
@_folder
@_json
def _hotspots(folder: Path, *, is_json: bool) -> None:
    """List the files that sessions of this project changed again and again, found errors in, or remembered
    something about."""
    found = asyncio.run(operations.earlier_work(load_config_or_defaults(), folder))
    lines = [
        " | ".join((f"{each.path}: {plural(each.sessions, 'session')}", _counts(each), *each.notes))
        for each in found
    ]
    _show([json_line(found)] if is_json else _listed(lines) or ["No file stands out in earlier sessions."])


def _counts(each: Any) -> str:
    return f"{plural(each.changes, 'change')}, {plural(each.errors, 'error')}"


def _status_lines(found: operations.IndexStatus) -> list[str]:
    lines = [
        f"{found.root}: {plural(found.files, 'file')}, {found.code_files} of them source",
        f"{plural(found.symbols, 'symbol')}, {plural(found.passages, 'passage')} of text",
        f"{readable_bytes(found.bytes)} in {found.file}",
    ]
    if found.is_cut:
        lines.append("There are more files than are listed; the index is not complete.")
    if found.left:
        lines.append(f"{plural(found.left, 'file')} not looked at yet: mainspring index goes on with them.")
    return [*lines, *(f"not read: {plural(count, 'file')}: {why}" for why, count in found.problems.items())]


def _of(symbol: Any) -> str:
    doc = _flat(symbol.doc.split("\n", 1)[0])
    shown = f"{symbol.kind} {symbol.parent and f'{symbol.parent}: '}"
    shown = "" if symbol.kind in symbol.signature.split() else shown
    return f"{shown}{symbol.signature or symbol.name}{doc and f'  # {doc}'}"


def _flat(text: str) -> str:
    return " ".join(text.split())[:_MAX_TEXT]


def _listed(lines: list[str]) -> list[str]:
    return [*lines[:_SHOWN], *([f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else [])]


def _show(lines: list[str]) -> None:
    for line in lines:
        click.echo(plain(line))


def _progress(done: int, count: int) -> None:
    click.echo(f"\r\033[K{done} of {count} files", err=True, nl=False)


def _nothing(done: int, count: int) -> None:
    del done, count

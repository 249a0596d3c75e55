"""`context` and `compact`: what fills the window of a session, and how to make it emptier."""

from __future__ import annotations

import asyncio

import click

from mainspring.app.operations.context import WindowUse, compact_session, expand_session, window_use
from mainspring.cli.config import NO_GATEWAY, load_config, load_config_or_defaults, newest_here
from mainspring.cli.json_output import json_line
from mainspring.documents.lines import as_text
from mainspring.events import Compacted
from mainspring.secrets.screen import plain

_BAR = 24


@click.command("context")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def context_command(session: str, *, is_json: bool) -> None:
    """Show what fills the window of SESSION (by default the newest of this folder): parts, tokens, share,
    cached share."""
    config = load_config_or_defaults()
    filled = asyncio.run(window_use(config, session or newest_here(config)))
    if is_json:
        click.echo(json_line(filled))
        return
    for line in as_lines(filled):
        click.echo(plain(line))


@click.command("compact")
@click.argument("session", default="")
@click.option("--undo", "is_undo", is_flag=True, help="Undo the last compaction.")
@click.option("--model", default="", help="The session's model from here on.")
@NO_GATEWAY
def compact_command(session: str, model: str, *, is_undo: bool) -> None:
    """Shorten the history of SESSION (by default the newest of this folder). Nothing is lost:
    --undo restores it."""
    config = load_config()
    session = session or newest_here(config)
    if is_undo:
        asyncio.run(expand_session(config, session, model=model))
        compacted = Compacted(summary="", keep_from_seq=1)
    else:
        compacted = asyncio.run(compact_session(config, session, model=model))
    click.echo(as_text(compacted))


def as_lines(filled: WindowUse) -> list[str]:
    total = max(filled.tokens, 1)
    width = max((len(part.part) for part in filled.parts), default=0)
    lines = [
        f"{part.part:<{width}}  {part.tokens:>9,}  {part.tokens / total:>4.0%}"
        f"  {'█' * round(_BAR * part.tokens / total):<{_BAR}}  {part.source}".rstrip()
        for part in filled.parts
    ]
    of_window = f"; {filled.tokens / filled.window:.0%} of {filled.window:,}" if filled.window else ""
    lines.append(f"{'all':<{width}}  {filled.tokens:>9,}  tokens, estimated{of_window}")
    if filled.last.input_tokens:
        cached = filled.last.cached_tokens / filled.last.input_tokens
        lines.append(f"{filled.model} counted {filled.last.input_tokens:,} last, {cached:.0%} of them cached")
    if filled.engine:
        lines.append(f"this is what is on record; {filled.engine} keeps a history of its own")
    lines += [f"skill ignored: {each.path}: {each.problem}" for each in filled.broken_skills]
    return lines

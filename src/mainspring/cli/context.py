"""`context` and `compact`: what fills the window of a session, and how to make it emptier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import msgspec

from mainspring import app
from mainspring.app import models
from mainspring.approvals.screen import plain
from mainspring.cli.render import as_text
from mainspring.cli.run import newest_here
from mainspring.config import Config, load_config
from mainspring.context.history import KINDS, live, live_compaction, read_all, undone_ranges
from mainspring.context.weights import Weight, weigh
from mainspring.engines import builtin
from mainspring.errors import MainspringError
from mainspring.events import (
    Compacted,
    EngineChosen,
    Limits,
    ModelChosen,
    PromptSet,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    TurnStarted,
    Usage,
)
from mainspring.journal import Reader
from mainspring.journal.store import Store
from mainspring.ledger import STEP
from mainspring.workspace.skills import Broken

_BAR = 24


class Filled(msgspec.Struct, frozen=True):
    """What a session's window holds; `window` is None when nobody said how much the model takes, and what an
    outside agent (`engine`) keeps in mind is its own affair."""

    model: str
    engine: str
    window: int | None
    tokens: int
    last: Usage
    parts: list[Weight]
    broken_skills: list[Broken] = []


@click.command("context")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def context_command(session: str, *, is_json: bool) -> None:
    """Show what fills the window of SESSION (by default the newest of this folder): parts, tokens, share,
    cached share."""
    filled = asyncio.run(_look(session or newest_here()))
    if is_json:
        click.echo(msgspec.json.encode(filled, enc_hook=str))
        return
    for line in as_lines(filled):
        click.echo(plain(line))


@click.command("compact")
@click.argument("session")
@click.option("--undo", "is_undo", is_flag=True, help="Take the last compaction back.")
@click.option("--model", default="", help="The session's model from here on.")
def compact_command(session: str, model: str, *, is_undo: bool) -> None:
    """Make the history of SESSION short. Nothing is lost: --undo brings it back."""
    asyncio.run(_compact(session, model, is_undo=is_undo))


async def _compact(session: str, model: str, *, is_undo: bool) -> None:
    limits = await _last_limits(session)
    async with app.open(session=session, model=model, limits=limits, allow_unpriced=True) as opened:
        if is_undo:
            await opened.expand()
            click.echo(as_text(Compacted(summary="", keep_from_seq=1)))
        else:
            compacted = await opened.compact()
            click.echo(as_text(compacted))


async def _last_limits(session: str) -> Limits:
    """The limits that the session last ran under: they hold for its summary too."""
    async with _reading(session) as journal:
        started = await journal.last("TurnStarted")
    return started.event.limits if started and isinstance(started.event, TurnStarted) else Limits()


@asynccontextmanager
async def _reading(session: str) -> AsyncGenerator[Reader]:
    store = Store(load_config().home)
    journal = await store.read(await store.find(session))
    try:
        yield journal
    finally:
        await journal.close()


async def _look(session: str) -> Filled:
    async with _reading(session) as journal:
        prompt, chosen = await journal.last("PromptSet"), await journal.last("ModelChosen")
        dead = undone_ranges(await read_all(journal, kinds=("Undone",)))
        compacted = await live_compaction(journal, dead)
        after = compacted.keep_from_seq - 1 if compacted else 0
        events = list(live(await read_all(journal, kinds=KINDS, after=after), dead))
        last = await _last_usage(journal)
        started, engine = await journal.last("SessionStarted"), await journal.last("EngineChosen")
    name = chosen.event.model if chosen and isinstance(chosen.event, ModelChosen) else ""
    known = prompt.event if prompt and isinstance(prompt.event, PromptSet) else PromptSet(system="")
    parts = weigh(known, compacted, events)
    config = load_config()
    outside = engine.event.engine if engine and isinstance(engine.event, EngineChosen) else ""
    broken: list[Broken] = []
    if started and isinstance(started.event, SessionStarted):
        _, broken = app.skills_of(Path(started.event.workspace), config)
    return Filled(
        model=name,
        engine="" if outside == builtin.NAME else outside,
        window=None if outside not in ("", builtin.NAME) else _window(name, config),
        tokens=sum(part.tokens for part in parts),
        last=last,
        parts=parts,
        broken_skills=broken,
    )


async def _last_usage(journal: Reader) -> Usage:
    """What the provider counted for the newest step."""
    spent = await read_all(journal, kinds=("SpendReserved", "SpendSettled"))
    reserved = [item.event for item in spent if isinstance(item.event, SpendReserved)]
    steps = {event.spend for event in reserved if event.source == STEP}
    for item in reversed(spent):
        event = item.event
        if isinstance(event, SpendSettled) and event.spend in steps and event.usage.input_tokens:
            return event.usage
    return Usage()


def _window(model: str, config: Config) -> int | None:
    try:
        return models.build_model(model, config).context_tokens
    except MainspringError:
        return None  # without its key or its script nobody can say


def as_lines(filled: Filled) -> list[str]:
    total = max(filled.tokens, 1)
    width = max((len(part.part) for part in filled.parts), default=0)
    lines = [
        f"{part.part:<{width}}  {part.tokens:>9,}  {part.tokens / total:>4.0%}"
        f"  {'█' * round(_BAR * part.tokens / total):<{_BAR}}  {part.source}".rstrip()
        for part in filled.parts
    ]
    lines.append(f"{'all':<{width}}  {filled.tokens:>9,}  tokens, estimated{_of_window(filled)}")
    if filled.last.input_tokens:
        cached = filled.last.cached_tokens / filled.last.input_tokens
        lines.append(f"{filled.model} counted {filled.last.input_tokens:,} last, {cached:.0%} of them cached")
    if filled.engine:
        lines.append(f"this is what is on record; {filled.engine} keeps a history of its own")
    lines += [f"skill not used: {each.path}: {each.problem}" for each in filled.broken_skills]
    return lines


def _of_window(filled: Filled) -> str:
    return f"; {filled.tokens / filled.window:.0%} of {filled.window:,}" if filled.window else ""

"""What fills the window of a session, and making it emptier."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainspring.app.build import open as open_session
from mainspring.app.build import skills_of
from mainspring.app.models import build_model
from mainspring.app.records import vault_of
from mainspring.app.stores import sessions_of
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
from mainspring.folds.ledger import STEP
from mainspring.journal import JournalReader
from mainspring.settings import Config
from mainspring.workspace.skills import Broken


class WindowUse(msgspec.Struct, frozen=True):
    """What a session's window holds; `window` is None when nobody said how much the model takes, and what an
    outside agent (`engine`) keeps in mind is its own affair."""

    model: str
    engine: str
    window: int | None
    tokens: int
    last: Usage
    parts: list[Weight]
    broken_skills: list[Broken] = []


async def window_use(config: Config, session: str) -> WindowUse:
    """What fills the window of a session now: its parts, and what the provider counted last."""
    async with _reading(config, session) as journal:
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
    vault = vault_of(sessions_of(config), journal.session, config)
    outside = engine.event.engine if engine and isinstance(engine.event, EngineChosen) else ""
    broken: list[Broken] = []
    if started and isinstance(started.event, SessionStarted):
        _, broken = skills_of(Path(vault.expand(started.event.workspace)), config)
    return WindowUse(
        model=name,
        engine="" if outside == builtin.NAME else outside,
        window=None if outside not in ("", builtin.NAME) else _window(vault.expand(name), config),
        tokens=sum(part.tokens for part in parts),
        last=last,
        parts=parts,
        broken_skills=broken,
    )


async def compact_session(config: Config, session: str, *, model: str = "") -> Compacted:
    """Makes the history of a session short; nothing is lost. A model is the session's from here on."""
    limits = await _last_limits(config, session)
    opened = open_session(session=session, model=model, limits=limits, allow_unpriced=True, config=config)
    async with opened as running:
        return await running.compact()


async def expand_session(config: Config, session: str, *, model: str = "") -> None:
    """Takes the last compaction of a session back."""
    limits = await _last_limits(config, session)
    opened = open_session(session=session, model=model, limits=limits, allow_unpriced=True, config=config)
    async with opened as running:
        await running.expand()


async def _last_limits(config: Config, session: str) -> Limits:
    """The limits that the session last ran under: they hold for its summary too."""
    async with _reading(config, session) as journal:
        started = await journal.last("TurnStarted")
    return started.event.limits if started and isinstance(started.event, TurnStarted) else Limits()


@asynccontextmanager
async def _reading(config: Config, session: str) -> AsyncGenerator[JournalReader]:
    store = sessions_of(config)
    journal = await store.read(await store.find(session))
    try:
        yield journal
    finally:
        await journal.close()


async def _last_usage(journal: JournalReader) -> Usage:
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
        return build_model(model, config).context_tokens
    except MainspringError:
        return None  # without its key or its script nobody can say

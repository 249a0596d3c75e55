"""What fills the window of a session, and making it emptier."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from mainspring.app.build import open as open_session
from mainspring.app.models import build_model
from mainspring.app.operations.sessions import journal_of
from mainspring.app.prompt import skills_of
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
from mainspring.journal import JournalReader, last_event
from mainspring.session.session import Session
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
    async with journal_of(config, session) as journal:
        prompt, chosen = await last_event(journal, PromptSet), await last_event(journal, ModelChosen)
        dead = undone_ranges(await read_all(journal, kinds=("Undone",)))
        compacted = await live_compaction(journal, dead)
        after = compacted.keep_from_seq - 1 if compacted else 0
        events = list(live(await read_all(journal, kinds=KINDS, after=after), dead))
        last = await _last_usage(journal)
        started, engine = await last_event(journal, SessionStarted), await last_event(journal, EngineChosen)
    name = chosen.model if chosen else ""
    parts = weigh(prompt or PromptSet(system=""), compacted, events)
    vault = vault_of(sessions_of(config), journal.session, config)
    outside = engine.engine if engine else ""
    broken: list[Broken] = []
    if started:
        _, broken = skills_of(Path(vault.expand(started.workspace)), config)
    return WindowUse(
        model=name,
        engine="" if outside == builtin.NAME else outside,
        window=None if outside not in ("", builtin.NAME) else window_of(vault.expand(name), config),
        tokens=sum(part.tokens for part in parts),
        last=last,
        parts=parts,
        broken_skills=broken,
    )


async def compact_session(config: Config, session: str, *, model: str = "") -> Compacted:
    """Makes the history of a session short; nothing is lost. A model is the session's from here on."""
    async with await _opened(config, session, model) as running:
        return await running.compact()


async def expand_session(config: Config, session: str, *, model: str = "") -> None:
    """Takes the last compaction of a session back."""
    async with await _opened(config, session, model) as running:
        await running.expand()


async def _opened(config: Config, session: str, model: str) -> AbstractAsyncContextManager[Session]:
    """A session under the limits that it last ran under: they hold for its summary too."""
    async with journal_of(config, session) as journal:
        started = await last_event(journal, TurnStarted)
    limits = started.limits if started else Limits()
    return open_session(session=session, model=model, limits=limits, allow_unpriced=True, config=config)


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


def window_of(model: str, config: Config) -> int | None:
    """How many tokens a model takes; None when nobody can say."""
    try:
        return build_model(model, config).context_tokens
    except MainspringError:
        return None  # without its key or its script nobody can say

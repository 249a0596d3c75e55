"""The same history again: with another continuation, with today's program, or beside another session's."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from mainspring.app.known import workspace_at
from mainspring.app.models import build_model
from mainspring.app.operations.import_settling import settle_fork
from mainspring.app.operations.sessions import journal_of
from mainspring.app.records import fork_session, recording, vault_of
from mainspring.app.stores import sessions_of
from mainspring.app.workspaces import AllowHome, check_workspace
from mainspring.catalog import UNREADABLE
from mainspring.context.history import read_all
from mainspring.errors import JournalDamaged, UsageError
from mainspring.events import (
    AssistantSaid,
    CallEnded,
    Event,
    FilesChanged,
    ModelChosen,
    NoteAdded,
    Recorded,
    SpendSettled,
    TurnEnded,
    encode,
)
from mainspring.journal import events_in
from mainspring.session.replay import ReplayedRequest, replay
from mainspring.settings import Config


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new session that shares so many events with the one it was made from. `unreadable` are the numbers
    of those that could not be read."""

    session: str
    shared_events: int
    unreadable: tuple[int, ...] = ()


class SessionSide(msgspec.Struct, frozen=True, kw_only=True):
    """What a session did from where it parts from another one: its events, and what they come to."""

    session: str
    events: tuple[Recorded, ...]
    models: tuple[str, ...]
    steps: int
    tokens: int
    usd: float
    outcomes: dict[str, int]
    files: tuple[str, ...]
    ending: str
    said: str


class SessionComparison(msgspec.Struct, frozen=True, kw_only=True):
    """So many events are the same from the first on; then the two sessions part."""

    shared_events: int
    sides: tuple[SessionSide, SessionSide]


async def fork(
    config: Config,
    session: str,
    *,
    at: int | None = None,
    model: str = "",
    folder: Path | None = None,
    is_repaired: bool = False,
    allow_home: AllowHome = False,
) -> Forked:
    """A new session that shares the history of another up to an event, and goes on with another model or in
    another folder when they are given. Files stay as they are now. With `is_repaired` events that cannot be
    read are left out and marked, and what follows them is kept."""
    opening: list[Event] = []
    if model:
        build_model(model, config)
        opening.append(ModelChosen(model=model, reason="fork"))
    if folder:
        folder = workspace_at(folder)
        check_workspace(folder, config, allow_home=allow_home)
        opening.append(NoteAdded(text=f"From here on the workspace is {folder}.", source="user"))
    made, shared = await fork_session(
        session, config, at=at, workspace=str(folder or ""), is_repaired=is_repaired
    )
    await settle_fork(config, await sessions_of(config).find(session), made)
    unreadable = await _unreadable(session, made, config) if is_repaired else ()
    if unreadable:
        events = ", ".join(map(str, unreadable))
        note = f"This session was repaired: what was recorded as event {events} could not be read."
        opening.append(NoteAdded(text=note, source="repair"))
    if opening:
        async with recording(made, config) as recorder:
            await recorder.record(*opening)
    return Forked(session=made, shared_events=shared, unreadable=unreadable)


async def _unreadable(parent: str, session: str, config: Config) -> tuple[int, ...]:
    """The events that the new session does not have. Its first is made of what could be read."""
    async with journal_of(config, session) as reader:
        lost = tuple(item.seq for item in await read_all(reader, kinds=(UNREADABLE,)))
    try:
        async with journal_of(config, parent) as reader:
            await reader.read(limit=1)
    except JournalDamaged:
        return (1, *lost)
    return lost


async def replay_session(config: Config, session: str) -> AsyncGenerator[ReplayedRequest]:
    """The requests of a session, each beside what would be sent now, offline; the last is the first that
    would be another."""
    is_compared = False
    async with journal_of(config, session) as reader:
        vault = vault_of(sessions_of(config), reader.session, config)
        async for request in replay(reader, lambda name: build_model(vault.expand(name), config)):
            is_compared = is_compared or request.verdict != "unknown"
            yield request
            if request.verdict == "different":
                return
    if not is_compared:
        raise UsageError("This session was recorded without request hashes, so it cannot be replayed.")


async def compare(config: Config, one: str, other: str) -> SessionComparison:
    """Where two sessions part, and what each did from there."""
    journals = await _events(config, one), await _events(config, other)
    shared = _shared(*journals)
    mine, yours = (_side(journal, shared) for journal in journals)
    return SessionComparison(shared_events=shared, sides=(mine, yours))


async def _events(config: Config, session: str) -> list[Recorded]:
    async with journal_of(config, session) as reader:
        return [recorded async for recorded in events_in(reader)]


def _shared(one: list[Recorded], other: list[Recorded]) -> int:
    """How many events are the same from the first on; the first names its session and may differ."""
    count = 0
    for mine, yours in zip(one, other, strict=False):
        is_start = mine.seq == 1 and mine.kind == yours.kind == "SessionStarted"
        if not is_start and (mine.time_us, encode(mine.event)) != (yours.time_us, encode(yours.event)):
            break
        count += 1
    return count if count > 1 else 0


def _side(journal: list[Recorded], shared: int) -> SessionSide:
    events = journal[shared:]
    models, outcomes, files = dict[str, None](), Counter[str](), dict[str, None]()
    steps = tokens = 0
    usd = 0.0
    said, ended = "", ""
    for item in events:
        match item.event:
            case ModelChosen(model=model):
                models[model] = None
            case AssistantSaid() as reply:
                steps += 1
                said = reply.text.strip() or said
            case CallEnded(outcome=outcome):
                outcomes[outcome] += 1
            case SpendSettled(usage=usage, usd=cost):
                tokens, usd = tokens + usage.total_tokens, usd + cost
            case FilesChanged(changes=changes):
                files |= dict.fromkeys(change.path for change in changes)
            case TurnEnded(ending=ending):
                ended = ending
            case _:
                pass
    return SessionSide(
        session=getattr(journal[0].event, "session", "?") if journal else "an empty session",
        events=tuple(events),
        models=tuple(models),
        steps=steps,
        tokens=tokens,
        usd=usd,
        outcomes=dict(outcomes),
        files=tuple(files),
        ending=ended,
        said=said,
    )

"""Deletes sessions: those that are named, or those that nobody touched for a while.

What runs is never deleted, nor what waits for something, nor what another session was forked from.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

import msgspec

from mainspring.app.operations.cost import today
from mainspring.app.operations.processes import list_processes
from mainspring.app.operations.sessions import session_bytes
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow, Sessions, reading, running
from mainspring.errors import JournalOwned, UnknownSession
from mainspring.events import (
    RESUMED_SOURCE,
    Cap,
    EffortChosen,
    EngineChosen,
    Event,
    ModeChosen,
    ModelChosen,
    NoteAdded,
    PromptSet,
    SandboxChosen,
    SessionResumed,
    SessionStarted,
)
from mainspring.settings import Config

DAY_US = 24 * 3600 * 1_000_000
_WAITING = ("blocked", "waiting", "paused")
_OPENING = (
    SessionStarted,
    SessionResumed,
    PromptSet,
    ModelChosen,
    ModeChosen,
    EffortChosen,
    EngineChosen,
    SandboxChosen,
)
_OPENING_MOST = 200


class DeletableSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that can go, and the room that this frees."""

    id: str
    bytes: int
    updated_us: int
    title: str
    events: int | None = None
    """How many it had when it was looked at; None of one that cannot be read."""


class KeptSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was asked for and stays. `is_waiting` says that only what it waits for keeps it."""

    id: str
    reason: str
    is_waiting: bool = False


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """What is deleted, or was, and what stays."""

    sessions: tuple[DeletableSession, ...] = ()
    kept: tuple[KeptSession, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.sessions)


async def plan_deletion(
    config: Config,
    sessions: Sequence[str] = (),
    *,
    older_than_days: float | None = None,
    allows_waiting: bool = False,
) -> Deletion:
    """What deleting the sessions of these ids, or those that did not change for so many days, would delete.
    With `allows_waiting` a session may wait for a person, as long as no process runs it."""
    store = sessions_of(config)
    rows = {row.id: row for row in await store.rows()}
    if older_than_days is not None:
        before_us = time.time_ns() // 1000 - int(older_than_days * DAY_US)
        chosen = [row.id for row in rows.values() if 0 < row.updated_us < before_us]
    else:
        chosen = list(dict.fromkeys([await store.find(session) for session in sessions]))
    chosen += [row.id for row in rows.values() if row.agent and row.parent in chosen and row.id not in chosen]
    kept = {
        name: found
        for name in chosen
        if (found := await _kept(rows[name], store, config, allows_waiting=allows_waiting))
    }
    kept |= _forked([name for name in chosen if name not in kept], rows)
    going = [name for name in chosen if name not in kept]
    sizes = await session_bytes(config, going)
    return Deletion(
        sessions=tuple(
            DeletableSession(
                id=name,
                bytes=sizes[name],
                updated_us=rows[name].updated_us,
                title=rows[name].title,
                events=None if rows[name].state == "damaged" else rows[name].events,
            )
            for name in going
        ),
        kept=tuple(kept.values()),
    )


async def delete_sessions(config: Config, plan: Deletion) -> Deletion:
    """Deletes what a plan names, for ever; a session that somebody opened, went on with or forked meanwhile
    stays, with what it was forked from."""
    store = sessions_of(config)
    gone: list[DeletableSession] = []
    kept = {each.id: each for each in plan.kept}
    rows = {row.id: row for row in await store.rows()}
    going = _forks_first(plan.sessions, rows)
    while going:
        each = going.pop(0)
        try:
            if await store.delete(each.id, last_seq=each.events, also=[other.id for other in going]):
                gone.append(each)
            else:
                kept[each.id] = KeptSession(id=each.id, reason=await _meanwhile(each.id, store))
        except JournalOwned as error:
            kept[each.id] = KeptSession(id=each.id, reason=error.message)
        except UnknownSession:
            pass  # another process deleted it
    return Deletion(sessions=tuple(gone), kept=tuple(kept.values()))


def _forks_first(
    sessions: Sequence[DeletableSession], rows: Mapping[str, SessionRow]
) -> list[DeletableSession]:
    """So that a parent goes only when its forks are gone. Two that name each other have no first one."""
    named = {each.id for each in sessions}

    def ancestors(session: DeletableSession) -> int:
        found, name = set[str](), session.id
        while name in named and name not in found:
            found.add(name)
            name = rows[name].parent if name in rows else ""
        return len(found)

    return sorted(sessions, key=ancestors, reverse=True)


async def _meanwhile(session: str, store: Sessions) -> str:
    forked = _forked([session], {row.id: row for row in await store.rows()})
    return forked[session].reason if forked else "somebody went on with it meanwhile"


async def drop_unused(config: Config, session: str) -> bool:
    """Deletes a session that was opened and in which nothing happened; False when something did, or when
    somebody else has it open."""
    store = sessions_of(config)
    async with reading(store, session) as reader:
        events = await reader.read(limit=_OPENING_MOST)
    if len(events) >= _OPENING_MOST or not all(_is_opening(each.event) for each in events):
        return False
    try:
        return await store.delete(session, last_seq=len(events))
    except JournalOwned:
        return False


def _is_opening(event: Event) -> bool:
    is_own_note = isinstance(event, NoteAdded) and event.source in ("mainspring", RESUMED_SOURCE)
    return is_own_note or isinstance(event, _OPENING)


async def _kept(
    row: SessionRow, store: Sessions, config: Config, *, allows_waiting: bool
) -> KeptSession | None:
    """Why a session stays, None when it need not."""
    if owner := await running(store, row.id):
        return KeptSession(id=row.id, reason=f"{owner.name} runs it")
    if live := await list_processes(config, row.id):
        return KeptSession(id=row.id, reason=f"its background process {live[0].handle} still runs")
    if config.settings.caps.day != Cap() and await _spent_today(row.id, store):
        return KeptSession(id=row.id, reason="what it spent today counts against the cap of the day")
    if not allows_waiting and (reason := _wait_of(row, config)):
        return KeptSession(id=row.id, reason=reason, is_waiting=True)
    return None


def _wait_of(row: SessionRow, config: Config) -> str:
    """What a session that nobody runs waits for; empty when for nothing."""
    state = row.goal_state if row.goal else row.state
    if state in _WAITING:
        return f"it is {state}, and can go on"
    if row.is_waiting:
        return "it waits for something to happen"
    age_us = time.time_ns() // 1000 - row.updated_us
    if row.goal and state == "interrupted" and age_us < config.settings.daemon.resume_within_days * DAY_US:
        return "its goal was interrupted, and can go on"
    return ""


def _forked(going: Collection[str], rows: dict[str, SessionRow]) -> dict[str, KeptSession]:
    """Those of the sessions that stay because one was forked from them that stays."""
    kept: dict[str, KeptSession] = {}
    going = set(going)
    while parents := {
        row.parent: row.id for row in rows.values() if row.parent in going and row.id not in going
    }:
        going.difference_update(parents)
        for name, fork in parents.items():
            kept[name] = KeptSession(id=name, reason=f"session {fork} was forked from it")
    return kept


async def _spent_today(session: str, store: Sessions) -> bool:
    day = today()
    spends = [each for each in await store.spends() if each.id == session]
    return any(purpose.day == day for each in spends for purpose in each.spent)

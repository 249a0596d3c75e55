"""Follows the events of a session, plans what people are told of them, and sends it."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from datetime import tzinfo
from functools import partial
from zoneinfo import ZoneInfo

import msgspec

from mainspring.app.operations.devices import Access
from mainspring.app.operations.sessions import journal_of, list_sessions
from mainspring.events import ApprovalGiven, UserSaid
from mainspring.journal import events_in
from mainspring.notify.courier import Courier
from mainspring.notify.notices import Notices, SessionNotice, Withdrawn
from mainspring.notify.outbox import Outbox
from mainspring.notify.plan import NoticeRules, SessionNotices, planned
from mainspring.sandbox.detached import start_detached
from mainspring.secrets.vault import Vault
from mainspring.session.session import Session
from mainspring.settings import Config

_LOOK_S = 30.0
_LAST_S = 20.0
_KILLED = "Its process was killed in the middle of a turn."


class Notifier:
    """Belongs to one session that is open in this process."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._outbox = Outbox(config.home)
        self._courier = courier_of(config)
        self._poke = asyncio.Event()
        self._is_closing = False
        self._watching: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None

    def follow(self, session: Session) -> None:
        self._watching = asyncio.create_task(self._watch(session))
        self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """After the session was closed: looks at the last events, sends what is due, and leaves the rest."""
        if self._watching is None or self._sending is None:
            return
        await self._end(self._watching, _LAST_S)
        self._is_closing = True
        self._poke.set()
        await self._end(self._sending, _LAST_S)
        await asyncio.to_thread(send_later, self._config)

    async def _end(self, task: asyncio.Task[None], within_s: float) -> None:
        """A fault of ours here, or a full disk, is no fault of the session: it is noted."""
        await asyncio.wait([task], timeout=within_s)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            self._outbox.note(f"notifications ended: {type(error).__name__}: {error}")

    async def _watch(self, session: Session) -> None:
        begun = partial(
            _begun,
            folder=session.state.workspace.name,
            seq=session.opened_seq,
            always=self._config.notify,
        )
        state = await asyncio.to_thread(self._outbox.change, session.id, begun)
        rules = _rules(self._config, self._outbox, state)
        notices = Notices(has_goal=session.state.has_goal)
        async with aclosing(session.subscribe(state.seen_seq)) as events:
            async for recorded in events:
                if self._config.is_attended and isinstance(recorded.event, UserSaid | ApprovalGiven):
                    self._outbox.show(session.id)
                if found := notices.take(recorded):
                    await self._plan(session.id, found, rules, recorded.seq)

    async def _plan(
        self, session: str, found: SessionNotice | Withdrawn, rules: NoticeRules, seq: int
    ) -> None:
        await asyncio.to_thread(_plan, self._outbox, session, found, rules, seq)
        self._poke.set()

    async def _send(self) -> None:
        while True:
            self._poke.clear()
            next_us = await self._courier.deliver()
            if self._is_closing and not self._poke.is_set():
                return
            try:
                async with asyncio.timeout(pause_s(next_us)):
                    await self._poke.wait()
            except TimeoutError:
                pass


def _plan(
    outbox: Outbox, session: str, found: SessionNotice | Withdrawn, rules: NoticeRules, seq: int
) -> None:
    now_us = time.time_ns() // 1000
    outbox.change(session, lambda state: planned(state, found, rules, now_us=now_us, seq=seq))


def _rules(config: Config, outbox: Outbox, state: SessionNotices) -> NoticeRules:
    return NoticeRules(
        settings=config.settings.notify,
        zone=zone_of(config),
        always=state.always,
        is_attended=config.is_attended,
        shown_us=partial(outbox.shown_us, state.session),
    )


async def plan_left(config: Config) -> None:
    """Plans what processes that were killed had recorded and not told, and that they were."""
    outbox = Outbox(config.home)
    known = set(outbox.known())
    for row in await list_sessions(config):
        if row.id not in known or row.state == "running" or row.goal_state == "running":
            continue
        state = outbox.load(row.id)
        notices, rules = Notices(has_goal=bool(row.goal)), _rules(config, outbox, state)
        async with journal_of(config, row.id) as reader:
            async for recorded in events_in(reader, after=state.seen_seq):
                if found := notices.take(recorded):
                    _plan(outbox, row.id, found, rules, recorded.seq)
        if row.state == "crashed" and not row.goal and not config.settings.daemon.sessions:
            said = SessionNotice(kind="failed", seq=row.events, at_us=row.updated_us, text=_KILLED)
            _plan(outbox, row.id, said, rules, row.events)


def courier_of(config: Config) -> Courier:
    """Who sends through the channels of the settings."""
    return Courier(
        Outbox(config.home),
        config.settings.notify.channels,
        environment=config.environment,
        keys=config.key_environment,
        push=Access(config),
        redact=Vault(config.secrets).redact,
        link=partial(_answer_link, config),
    )


def zone_of(config: Config) -> tzinfo:
    return ZoneInfo(config.settings.notify.zone) if config.settings.notify.zone else config.zone


def pause_s(next_us: int | None) -> float:
    """How long to sleep until the next message is due; never long, for a clock that jumps."""
    left_s = _LOOK_S if next_us is None else (next_us - time.time_ns() // 1000) / 1e6
    return min(max(left_s, 0.05), _LOOK_S)


def send_later(config: Config) -> None:
    """Leaves what is still on its way to a process of its own, which ends when nothing is."""
    outbox = Outbox(config.home)
    if any(True for _ in outbox.sessions()):
        start_detached(["notify", "deliver"], environment=config.environment, log=outbox.log)


async def deliver_all(config: Config) -> None:
    """Sends what is on its way until nothing is; at once when another process does so."""
    outbox, courier = Outbox(config.home), courier_of(config)
    with outbox.held() as is_held:
        if not is_held:
            return
        while (next_us := await courier.deliver()) is not None:  # noqa: ASYNC110 - it is time that passes
            await asyncio.sleep(pause_s(next_us))


def _begun(state: SessionNotices, folder: str, seq: int, always: tuple[str, ...]) -> SessionNotices:
    """What was recorded before anybody was to be told is not told; what a process left before it ended is."""
    named = tuple(dict.fromkeys((*state.always, *always)))
    return msgspec.structs.replace(state, folder=folder, seen_seq=state.seen_seq or seq, always=named)


def _answer_link(config: Config, session: str, call: str) -> str:
    """Where a question can be answered, once; empty when no server is known."""
    access = Access(config)
    server = config.settings.notify.server or access.address
    return f"{server.rstrip('/')}/answer#{access.link(session, call)}" if server else ""

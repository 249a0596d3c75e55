"""Hooks that hear of what happened: of the session itself, and of events on record. They hold nothing up and
decide nothing; what they say is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext, suppress
from typing import Any

import msgspec

from mainspring.errors import JournalError
from mainspring.events import (
    ChildStarted,
    GoalEnded,
    HookEvent,
    IterationEnded,
    Recorded,
)
from mainspring.hooks.runner import HookRunner, notes_of
from mainspring.hooks.sources import Hook
from mainspring.notify.notices import Notices, SessionNotice, title_of
from mainspring.session.session import Session
from mainspring.turns.hooks import attach
from mainspring.turns.runtime import Runtime

_FOLLOWED: tuple[HookEvent, ...] = ("Notification", "IterationEnded", "GoalEnded", "SubagentStart")
_LAST_S = 10.0
_NOTICES = {"question": "permission_prompt", "ended": "idle_prompt"}
"""How Claude Code names what it has as well."""


def hooks_around(
    runtime: Runtime, hooks: Sequence[Hook]
) -> Callable[[Session], AbstractAsyncContextManager[None]]:
    """Puts hooks around a session that is not open yet; gives what is to be entered once it is."""
    made = attach(runtime, hooks)
    if made is None:
        return lambda _: nullcontext()
    return lambda session: _around(session, runtime, made.runner)


@asynccontextmanager
async def _around(session: Session, runtime: Runtime, runner: HookRunner) -> AsyncGenerator[None]:
    is_child = runtime.budget.parent is not None
    if not is_child:
        source = "resume" if session.opened_seq else "startup"
        runs = await runner.fire("SessionStart", source, source=source, model=session.state.model)
        await runtime.record(*notes_of(runs))
    follower = _Follower(session, runtime, runner) if any(map(runner.of, _FOLLOWED)) else None
    try:
        yield
    finally:
        if follower:
            await follower.close()
        if not is_child:
            # A journal that cannot be written any more is told by the session itself.
            with suppress(JournalError, TimeoutError):
                async with asyncio.timeout(_LAST_S):
                    await runner.fire("SessionEnd", "other", reason="other")


class _Follower:
    """Reads the events of a session as they come, and runs the hooks that want to know of them."""

    def __init__(self, session: Session, runtime: Runtime, runner: HookRunner) -> None:
        self._session = session
        self._runtime = runtime
        self._runner = runner
        self._notices = Notices(has_goal=session.state.has_goal)
        self._seen = runtime.feed.last_seq
        self._until: int | None = None
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Hears of what is on record by now, within a time."""
        self._until = self._runtime.feed.last_seq
        if self._seen < self._until:
            await asyncio.wait([self._task], timeout=_LAST_S)
        self._task.cancel()
        await asyncio.wait([self._task])
        error = None if self._task.cancelled() else self._task.exception()
        if error is not None and not isinstance(error, JournalError):
            raise error

    async def _follow(self) -> None:
        async with aclosing(self._session.subscribe(self._seen)) as events:
            async for recorded in events:
                await self._tell(recorded)
                self._seen = recorded.seq
                if self._until is not None and self._seen >= self._until:
                    return

    async def _tell(self, recorded: Recorded) -> None:
        match recorded.event:
            case IterationEnded() as event:
                await self._runner.fire("IterationEnded", event.outcome, **_fields(event))
            case GoalEnded() as event:
                await self._runner.fire("GoalEnded", event.ending, **_fields(event))
            case ChildStarted() as event:
                agent = event.agent or "general-purpose"
                await self._runner.fire("SubagentStart", agent, agent_id=event.child, agent_type=agent)
            case _:
                pass
        notice = self._notices.take(recorded)
        if isinstance(notice, SessionNotice):
            kind = _NOTICES.get(notice.kind, notice.kind)
            title = title_of(notice.kind, self._session.state.workspace.name, self._session.id)
            await self._runner.fire(
                "Notification", kind, message=notice.text, title=title, notification_type=kind
            )


def _fields(event: GoalEnded | IterationEnded) -> dict[str, Any]:
    """An event of ours as a hook is told it."""
    fields = msgspec.to_builtins(event)
    fields.pop("origin", None)
    return fields

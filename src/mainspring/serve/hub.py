"""The sessions that this server runs itself. Each is held open for as long as it works, and a moment longer.

Whatever is said to a session goes through its inbox, whoever runs it (`app/operations/messages.py`); only
when nobody does, the server opens the session here and goes on with it. A question that nobody answers ends
the turn as blocked; the answer opens the session again, so nothing is held open while a person sleeps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from mainspring.app.build import open as open_session
from mainspring.app.operations.answers import nobody
from mainspring.app.operations.approve import (
    ApprovalReply,
    deliver_answer,
    prepare_answers,
    record_answers,
)
from mainspring.app.operations.branches import begin_branch, check_branch, commit_branch
from mainspring.app.operations.daemon import start_daemon, wake_daemon
from mainspring.app.operations.messages import (
    Delivery,
    LeftMessage,
    has_goal,
    leave_queued,
    say_to_owner,
    wants_turn,
)
from mainspring.app.operations.sessions import is_run
from mainspring.app.operations.timeline import BackAt, go_back_to
from mainspring.errors import JournalOwned, MainspringError, UsageError
from mainspring.events import ApprovalGiven, Cap, Effort, Event, Extent, Limits, Profile
from mainspring.session.session import Session
from mainspring.settings import Config

_LINGER_S = 2.0
_LOOK_S = 0.25
_CAPS = ("max_cost_usd", "max_tokens", "max_steps", "max_calls", "timeout_s")
_log = logging.getLogger(__name__)


class StartSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new session in a folder of this machine. What is not given is as in the settings."""

    text: str
    workspace: str
    model: str = ""
    engine: str = ""
    fallback: tuple[str, ...] = ()
    effort: Effort | None = None
    profile: Profile | None = None
    mode: str = ""
    max_cost_usd: float | None = None
    max_cost_usd_today: float | None = None
    max_tokens: int | None = None
    max_steps: int | None = None
    max_calls: int | None = None
    timeout_s: float | None = None
    allow_unpriced: bool = False
    branch: bool = False
    notify: tuple[str, ...] = ()


def absolute(folder: str) -> Path:
    """A folder of this machine as another one names it: whole, since nobody there knows where we are."""
    path = Path(folder)
    if not path.is_absolute():
        raise UsageError(f"The workspace must be an absolute path, not {folder!r}.")
    return path


class _Hosted:
    """A session that runs here; `linger` ends the moment that it is held open after its last turn."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.linger: asyncio.Timeout | None = None
        self.gone = asyncio.Event()


class Hub:
    """Use `async with`; leaving it stops what runs here, on record."""

    def __init__(self) -> None:
        self._here: dict[str, _Hosted] = {}
        self._tasks = asyncio.TaskGroup()
        self._is_closing = asyncio.Event()
        self._answering = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing.set()
        for hosted in self._here.values():
            hosted.session.stop_soon()
            _end_linger(hosted)
        await self._tasks.__aexit__(kind, error, trace)

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(self._here)

    def here(self, session: str) -> Session | None:
        """The session itself, when this process runs it."""
        hosted = self._here.get(session)
        return hosted and hosted.session

    async def start(self, config: Config, given: StartSession) -> str:
        """Begins a session here and gives its id; the work goes on by itself."""
        if not given.text.strip():
            raise UsageError("The message is empty.")
        caps = {name: getattr(given, name) for name in _CAPS}
        config = msgspec.structs.replace(config, notify=config.settings.notify.named(given.notify))
        folder = absolute(given.workspace)
        if given.branch:
            await check_branch(config, folder)

        async def beginning() -> Sequence[Event]:
            return [await begin_branch(config, folder, given.text)]

        opened = open_session(
            folder,
            model=given.model,
            fallback=given.fallback,
            engine=given.engine,
            effort=given.effort,
            profile=given.profile,
            mode=given.mode,
            limits=Limits(**caps, day=Cap(usd=given.max_cost_usd_today)),
            allow_unpriced=given.allow_unpriced,
            approver=nobody,
            config=config,
            origin=config.origin,
            beginning=beginning if given.branch else None,
        )
        return await self._hold(config, opened, lambda session: session.say(given.text))

    async def say(self, config: Config, session: str, text: str) -> Delivery:
        """Says something to a session: by way of the process that runs it, or by going on with it here."""
        if delivery := await say_to_owner(config, session, text):
            return delivery
        await self._go_on(config, session, lambda opened: opened.say(text))
        return Delivery(session=session, state="recorded", owner="this server")

    async def queue(self, config: Config, session: str, text: str) -> Delivery:
        """Says something when the running turn is over, whoever runs it; at once when none does."""
        if await has_goal(config, session):
            return await self.say(config, session, text)
        left = await leave_queued(config, session, text)
        if left is None:
            return await self.say(config, session, text)
        message, runner = left
        self._tasks.create_task(self._see_said(config, session, text, message))
        return Delivery(session=session, state="waiting", owner=runner.name)

    async def _see_said(self, config: Config, session: str, text: str, left: LeftMessage) -> None:
        """Goes on with a session whose process ended before it said what was left for it, or after it had
        taken that and before it began to answer."""
        is_ours = False
        while not self._is_closing.is_set():
            if is_ours or not await is_run(config, session):
                try:
                    is_ours = is_ours or left.withdraw()
                    if is_ours:
                        await self.say(config, session, text)
                    elif left.is_pending or await wants_turn(config, session):
                        await self._go_on(config, session, _begin_wanted)
                    return
                except JournalOwned:
                    pass  # somebody began to run it in this moment
                except MainspringError:
                    _log.exception("What was queued could not be said.")
                    return
            elif not left.is_pending and not await wants_turn(config, session):
                return
            await asyncio.sleep(_LOOK_S)

    async def answer(
        self, config: Config, session: str, reply: ApprovalReply, call: str
    ) -> tuple[ApprovalGiven, ...]:
        """Answers what a session asks. The first answer counts, wherever it comes from, or as many as a team
        wants."""
        async with self._answering:
            return await self._answer_first(config, session, reply, call)

    async def _answer_first(
        self, config: Config, session: str, reply: ApprovalReply, call: str
    ) -> tuple[ApprovalGiven, ...]:
        prepared = await prepare_answers(config, session, reply, call=call)
        await self.release(prepared.session)
        left = [each for each in prepared.answers if not await deliver_answer(config, prepared.session, each)]
        if left and not prepared.decides:
            await record_answers(config, prepared.session, left)
        elif left and prepared.has_goal:
            await record_answers(config, prepared.session, left)
            if not wake_daemon(config):
                await asyncio.to_thread(start_daemon, config)
        elif left:
            await self._go_on(config, prepared.session, lambda opened: _answer(opened, left))
        return prepared.answers

    async def go_back(self, config: Config, session: str, to_seq: int | None, scope: Extent) -> BackAt:
        """Takes a session back to an event, or before its last turn. What runs must be stopped first."""
        await self.release(session)
        return await go_back_to(config, session, to_seq, scope)

    async def release(self, session: str) -> None:
        """Closes a session that is held open here without a turn, which takes no answers."""
        if (hosted := self._here.get(session)) and not hosted.session.is_turn_wanted:
            _end_linger(hosted)
            await hosted.gone.wait()

    async def _go_on(self, config: Config, session: str, begin: Callable[[Session], Awaitable[None]]) -> None:
        opened = open_session(session=session, approver=nobody, config=config, origin=config.origin)
        await self._hold(config, opened, begin)

    async def _hold(
        self,
        config: Config,
        opened: AbstractAsyncContextManager[Session],
        begin: Callable[[Session], Awaitable[None]],
    ) -> str:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tasks.create_task(self._host(config, opened, begin, ready))
        return await asyncio.shield(ready)

    async def _host(
        self,
        config: Config,
        opened: AbstractAsyncContextManager[Session],
        begin: Callable[[Session], Awaitable[None]],
        ready: asyncio.Future[str],
    ) -> None:
        hosted: _Hosted | None = None
        try:
            async with opened as session:
                hosted = self._here[session.id] = _Hosted(session)
                await begin(session)
                ready.set_result(session.id)
                await self._until_idle(hosted)
                await _commit(config, session)
        except Exception as error:  # noqa: BLE001 - it is recorded in its session, and others go on
            if ready.done():
                _log.exception("A session of this server has failed.")
            else:
                ready.set_exception(error)
        finally:
            if hosted is not None:
                del self._here[hosted.session.id]
                hosted.gone.set()

    async def _until_idle(self, hosted: _Hosted) -> None:
        """Returns a moment after the last turn has ended, and when the server ends."""
        session = hosted.session
        async with aclosing(session.subscribe(session.opened_seq)) as events:
            while session.is_turn_wanted or not self._is_closing.is_set():
                try:
                    async with asyncio.timeout(None if session.is_turn_wanted else _LINGER_S) as linger:
                        hosted.linger = None if session.is_turn_wanted else linger
                        await anext(events, None)
                except TimeoutError:
                    return
                finally:
                    hosted.linger = None


def _end_linger(hosted: _Hosted) -> None:
    if hosted.linger is not None and not hosted.linger.expired():
        hosted.linger.reschedule(asyncio.get_running_loop().time())


async def _commit(config: Config, session: Session) -> None:
    """Commits what a session with a branch did; a refusal loses nothing, and landing tries again."""
    try:
        await commit_branch(config, session)
    except UsageError as error:
        _log.warning("Nothing was committed: %s", error.message)


async def _begin_wanted(session: Session) -> None:
    if session.is_turn_wanted:
        await session.proceed()


async def _answer(session: Session, answers: Sequence[ApprovalGiven]) -> None:
    for given in answers:
        await session.answer(given)
    await session.proceed()

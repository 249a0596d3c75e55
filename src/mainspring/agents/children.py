"""Runs the children of a session while it is open: each is a session of its own in this process.

A child's id is on record with its parent before there is such a session, and its one end after its last turn.
Whoever opens the parent later finds by that id what became of the child and goes on with it, so nothing is
done twice. A child that ends while nobody waits for it is told to the model in a note.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress

import msgspec

from mainspring.agents.delegate import NAME, DelegateArguments, isolation_of
from mainspring.agents.files import GENERAL, Agent
from mainspring.agents.landing import bring_back
from mainspring.agents.ports import CheckedTurns, ChildOpener, ChildPlace
from mainspring.agents.questions import child_approver
from mainspring.agents.results import MAX_TEXT, ChildWork, is_open, is_unbegun, progress, told, work_of
from mainspring.agents.shares import limits_of, share_of, task_share
from mainspring.catalog import Sessions
from mainspring.disk.ids import new_id
from mainspring.errors import JournalDamaged, JournalError, JournalOwned, MainspringError, UnknownSession
from mainspring.events import (
    CHILD_WAIT,
    KEEPS_CALLS_OPEN,
    CallStarted,
    ChildEnded,
    ChildStarted,
    ChildState,
    Event,
    Limits,
    NoteAdded,
    OnChild,
    OutputDelta,
    PlannedTask,
    Recorded,
    SpendReserved,
    TurnEnded,
    TurnStarted,
    WaitStarted,
    tool_of,
)
from mainspring.events.counts import plural
from mainspring.secrets.injection import suspicions
from mainspring.session.session import Session, runtime_of
from mainspring.tools import CallContext, Output, ToolFailed
from mainspring.waits.hold import hold
from mainspring.workspace.worktrees import Worktree, printable

MAX_AT_WORK = 8
"""Children of one session that are at work at the same time."""
_SOURCE = NAME
_LOOK_S = 0.5


class ChildRunner:
    """`refusal` says why an agent may not work here with the model that was named; empty when it may.
    `copy_for` is the copy of the workspace that a child works in, unless it only reads."""

    def __init__(
        self,
        parent: Session,
        sessions: Sessions,
        agents: Mapping[str, Agent],
        open_child: ChildOpener,
        refusal: Callable[[Agent, str], str],
        copy_for: Callable[[str], Worktree],
        checked_turns: CheckedTurns,
    ) -> None:
        self._parent = parent
        self._sessions = sessions
        self._agents = agents
        self._open_child = open_child
        self._refusal = refusal
        self._copy_for = copy_for
        self._checked_turns = checked_turns
        self._runtime = runtime_of(parent)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._live: dict[str, Session] = {}
        self._stopped: set[str] = set()
        self._planning = asyncio.Lock()
        self._landing = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None
        self._is_closed = False

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[None]:
        """Runs children until the block ends; those that are at work then are stopped, on record."""
        try:
            if self._parent.state.children.open:
                self._follow_parent()
            yield
        finally:
            await self._close()

    async def delegate(self, arguments: DelegateArguments, place: CallContext) -> Output:
        """Has a child do a task, and gives what came of it. An interrupted call goes on with its child."""
        if (waiting := place.waiting) is None or self._is_closed:
            raise ToolFailed("Nobody can work for this session now.")
        children = self._parent.state.children
        started = children.calls.get(place.call) or await self._begin(arguments, place.call)
        child = started.child
        self.go_on_with(started)
        if started.is_background:
            return Output(
                text=f"Child {child} is at work in the background. You are told when it has ended. It ends"
                f" with this session, so wait for it (wait, session {child}) before you finish."
            )
        wait = WaitStarted(
            wait=f"{CHILD_WAIT}{place.call}", conditions=(OnChild(child=child),), call=place.call
        )
        try:
            await hold(waiting, wait)
        except asyncio.CancelledError:
            self._stop_soon(child)
            raise
        ended = self._parent.state.children.ended.get(child)
        if ended is None:
            return Output(text=f"Child {child} goes on in the background: the user said something new.")
        return Output(
            text=told(ended, started.agent), is_error=ended.state in ("failed", "lost"), full=ended.full
        )

    async def _begin(self, arguments: DelegateArguments, call: str) -> ChildStarted:
        """Plans a child and records it: from then on there is one, whatever becomes of this process."""
        agent = self.agent_for(arguments.agent, arguments.model)
        async with self._planning:
            state = self._parent.state
            if not self.has_room:
                most = plural(MAX_AT_WORK, "child").replace("childs", "children")
                raise ToolFailed(f"{most} are at work already; wait for one of them to end.")
            started = ChildStarted(
                child=new_id(),
                task=arguments.task,
                agent=agent.name,
                call=call,
                model=arguments.model or agent.model,
                isolation=isolation_of(arguments, agent, state.mode),
                is_background=arguments.background,
                limits=self._limits(arguments, agent, call),
            )
            await self._runtime.record(started)
        return started

    async def begin_task(
        self, task: PlannedTask, text: str, call: str, later: Sequence[PlannedTask], reserve: float
    ) -> None:
        """Begins a task of a graph, where those in `later` will follow; one that cannot begin has ended at
        once, on record."""
        async with self._planning:
            started = ChildStarted(
                child=new_id(),
                task=text,
                agent=task.agent or GENERAL.name,
                call=call,
                model=task.model,
                node=task.name,
                checks=task.checks,
            )
            try:
                agent = self.agent_for(task.agent, task.model)
                share = task_share(
                    self._parent.state.ledger, self._runtime.limits, task, later, reserve=reserve
                )
                if share is None:
                    raise ToolFailed("Too little of the budget is left for it.")
            except ToolFailed as error:
                ended = ChildEnded(child=started.child, state="failed", detail=str(error))
                await self._runtime.record(started, ended)
                return
            started = msgspec.structs.replace(
                started,
                model=task.model or agent.model,
                isolation=isolation_of(DelegateArguments(task=text), agent, self._parent.state.mode),
                limits=limits_of(share, budget_usd=None, steps=agent.max_turns, tokens=agent.max_tokens),
            )
            await self._runtime.record(started)
        self.go_on_with(started)

    async def until_one_ended(self, children: Collection[str]) -> bool:
        """Waits until one of these children has ended; False when one stopped without an end on record."""
        tasks = [self._tasks[child] for child in children if child in self._tasks]
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        at_work = {child for child, task in self._tasks.items() if not task.done()}
        return not (self._parent.state.children.open.keys() & (set(children) - at_work))

    @property
    def has_room(self) -> bool:
        return len(self._parent.state.children.open) < MAX_AT_WORK

    def agent_for(self, name: str, model: str) -> Agent:
        """Who does a task; `ToolFailed` says why nobody may."""
        agent = GENERAL if name in ("", GENERAL.name) else self._agents.get(name)
        if agent is None:
            raise ToolFailed(f"There is no agent {name!r}. The agents are: {', '.join(self._agents)}.")
        if why := self._refusal(agent, model or agent.model):
            raise ToolFailed(why)
        return agent

    def _limits(self, arguments: DelegateArguments, agent: Agent, call: str) -> Limits:
        state = self._parent.state
        begun = state.children.calls
        beside = sum(
            tool_of(each.asked.name) == NAME and each.asked.call not in (call, *begun)
            for each in state.open_calls
        )
        beside = min(beside, MAX_AT_WORK - len(state.children.open) - 1)
        share = share_of(state.ledger, self._runtime.limits, beside=beside)
        if share is None:
            raise ToolFailed("Too little of the budget is left to give some away; do it yourself, briefly.")
        return limits_of(share, budget_usd=arguments.budget, steps=agent.max_turns, tokens=agent.max_tokens)

    def go_on_with(self, started: ChildStarted) -> None:
        """Has a child work that has no end on record; nothing when it does already."""
        if started.child in self._tasks or started.child not in self._parent.state.children.open:
            return
        self._follow_parent()
        self._tasks[started.child] = asyncio.create_task(self._run(started))

    async def _run(self, started: ChildStarted) -> None:
        """Takes a child to its end, and records that; a parent's journal that fails is its parent's fault."""
        began = time.monotonic()
        try:
            ended = await self._worked(started)
        except (UnknownSession, JournalDamaged) as error:
            ended = ChildEnded(child=started.child, state="lost", detail=error.message)
        except ToolFailed as error:  # it was refused since it began
            ended = await self._ended_by(started, "failed", str(error))
        except MainspringError as error:
            ended = await self._ended_by(started, "failed", f"{error.message} {error.remedy}".strip())
        except Exception as error:  # noqa: BLE001 - a fault of a child is on record in its journal, and told to its parent
            ended = await self._ended_by(started, "failed", f"mainspring itself failed: {error!r}")
        if ended.state == "stopped" and self._is_closed and _is_of_person(started):
            return  # whoever opens the session again goes on with it
        with suppress(JournalError):
            if started.isolation == "read-only":
                await self._end(started, ended, time.monotonic() - began)
                return
            await self._until_earlier_ended(started)
            async with self._landing:
                await self._land(started, ended, began)

    async def _land(self, started: ChildStarted, ended: ChildEnded, began: float) -> None:
        """Brings back what a child did, and removes its copy; when that fails, the copy is kept and named."""
        copy = self._copy_for(started.child)
        try:
            whole, changed = await bring_back(self._runtime, copy, started, ended)
            await self._end(started, whole, time.monotonic() - began, *changed)
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001 - told to the parent, which waits for this end
            why = error.message if isinstance(error, MainspringError) else repr(error)
            kept = f"What it changed was not taken over: {printable(why)} Its copy is kept: {copy.work}"
            detail = f"{ended.detail} {kept}".strip()
            failed = msgspec.structs.replace(ended, state="failed", detail=detail)
            await self._end(started, failed, time.monotonic() - began)
            return
        if not await is_open(self._sessions, started.child):  # else somebody works there
            await asyncio.to_thread(copy.remove)

    async def _until_earlier_ended(self, started: ChildStarted) -> None:
        """Work is taken over in the order in which it was given away: the same calls give the same files."""
        earlier = list(self._parent.state.children.open.values())
        if started in earlier and not (started.is_background or started.node):
            before = [each for each in earlier[: earlier.index(started)] if not each.is_background]
            tasks = [self._tasks[each.child] for each in before if each.child in self._tasks]
            if tasks:
                await asyncio.wait(tasks)

    async def _worked(self, started: ChildStarted) -> ChildEnded:
        child = started.child
        agent = self.agent_for(started.agent, started.model)
        while True:
            share = self._parent.state.ledger.shares.open.get(child)
            is_new = await is_unbegun(self._sessions, child, has_spent=bool(share and share.tokens))
            try:
                place = await self._place(started)
                opened = self._open_child(
                    started, agent, place, child_approver(self._runtime, started), is_new=is_new
                )
                async with opened as session:
                    self._live[child] = session
                    try:
                        await self._taken(session, started)
                    finally:
                        self._live.pop(child, None)
                break
            except JournalOwned:  # somebody went on with it themselves
                if not await self._is_free_again(child):
                    return await self._ended_by(started, "stopped", "Somebody else has it open.")
        work = await work_of(self._sessions, child)
        return work.as_ended(
            child, "stopped" if work.ended is None and child in self._stopped else work.state
        )

    async def _place(self, started: ChildStarted) -> ChildPlace:
        if started.isolation == "read-only":
            return ChildPlace(self._parent.state.workspace)
        copy = self._copy_for(started.child)
        await asyncio.to_thread(copy.make)
        return ChildPlace(copy.work, await asyncio.to_thread(lambda: copy.borrowed))

    async def _is_free_again(self, child: str) -> bool:
        """Waits until no other process works on a child any more; False when it is to be stopped before."""
        while await is_open(self._sessions, child):
            if child in self._stopped:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def _taken(self, session: Session, started: ChildStarted) -> None:
        if started.child in self._stopped:
            return
        events = self._checked_turns(session, started) if started.checks else self._turn(session, started)
        async with aclosing(events):
            async for item in events:
                if text := progress(item.event):
                    self._runtime.show(OutputDelta(call=started.call, text=text))
                if started.child in self._stopped:
                    session.stop_soon()

    async def _turn(self, session: Session, started: ChildStarted) -> AsyncGenerator[Recorded]:
        state, last = session.state, session.state.last_ending
        goes_on = (*KEEPS_CALLS_OPEN, "interrupted") if _is_of_person(started) else KEEPS_CALLS_OPEN
        if not session.is_turn_wanted and last is not None and last.ending not in goes_on:
            return
        is_told = state.turn > 0 or session.is_turn_wanted
        async with aclosing(session.watch("" if is_told else started.task)) as events:
            async for item in events:
                yield item

    async def _ended_by(self, started: ChildStarted, state: ChildState, detail: str) -> ChildEnded:
        try:
            work = await work_of(self._sessions, started.child)
        except MainspringError:
            work = ChildWork(ended=None)
        return work.as_ended(started.child, state, detail)

    async def _end(
        self, started: ChildStarted, ended: ChildEnded, duration_s: float, *changed: Event
    ) -> None:
        runtime, state = self._runtime, self._parent.state
        if started.child not in state.children.open:
            return
        if len(ended.text) > MAX_TEXT:
            full = await runtime.recorder.put_blob(ended.text.encode())
            ended = msgspec.structs.replace(ended, text=ended.text[:MAX_TEXT], full=full)
        ended = msgspec.structs.replace(ended, duration_s=round(duration_s, 3))
        events: list[Event] = [*changed, ended]
        if started.is_background or not (_is_of_person(started) or state.open_call(started.call)):
            text = told(ended, started.agent)
            events.append(NoteAdded(text=text, source=_SOURCE, suspicious=suspicions(text)))
        await runtime.record(*events)

    def _follow_parent(self) -> None:
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch(self._runtime.last_seq))

    async def _watch(self, after: int) -> None:
        """Goes on with children of an earlier process once their parent works again, and stops all when it is
        stopped."""
        left = set(self._parent.state.children.open)
        async with aclosing(self._parent.subscribe(after)) as events:
            async for item in events:
                match item.event:
                    case TurnStarted() | CallStarted() | SpendReserved() if left:
                        for started in tuple(self._parent.state.children.open.values()):
                            if started.child in left:
                                self.go_on_with(started)
                        left.clear()
                    case TurnEnded(ending="interrupted"):
                        for child in tuple(self._tasks):
                            self._stop_soon(child)
                    case _:
                        pass

    def _stop_soon(self, child: str) -> None:
        self._stopped.add(child)
        if session := self._live.get(child):
            session.stop_soon()

    async def _close(self) -> None:
        self._is_closed = True
        for child in self._tasks:
            self._stop_soon(child)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)


def _is_of_person(started: ChildStarted) -> bool:
    """Whether it does a task of a graph that a person gave: it goes on after it was interrupted."""
    return bool(started.node) and not started.call

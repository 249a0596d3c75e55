"""Owns one journal, one running turn, one inbox and the subscribers.

Everything that happens is appended first and published after: `state` and `history` never hold what the
journal does not. Faces send commands (`say`, `note`, `approve`, `stop`, `undo`, `compact`) and watch events;
they never call the loop. A slow subscriber loses deltas, never an event, and never holds up a turn.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from mainspring.approvals.grants import Grant
from mainspring.catalog import Day
from mainspring.context.guards import Guards, load_guards
from mainspring.context.history import History, Projection, ended_calls, fresh_start, recall
from mainspring.errors import MainspringError, UsageError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    Blob,
    CallEnded,
    Compacted,
    Crashed,
    Decision,
    Delta,
    Effort,
    EffortChosen,
    Event,
    Extent,
    Limits,
    Media,
    ModelChosen,
    NoteAdded,
    Recorded,
    SandboxChosen,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from mainspring.folds.processes import Handles, end_all
from mainspring.folds.state import State, load_state
from mainspring.journal import JournalReader
from mainspring.models import Model
from mainspring.models.pool import ModelPool
from mainspring.sandbox import Sandbox
from mainspring.secrets.vault import Vault
from mainspring.session.feed import Feed
from mainspring.session.parts import Parts, opening
from mainspring.session.questions import Questions
from mainspring.session.recorder import Recorder
from mainspring.session.reply import Reply, take_reply
from mainspring.session.rewind import WentBack, complete, go_back, last_turn
from mainspring.tools.output import OutputType
from mainspring.tools.text import whole_characters
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.calls import record_lost
from mainspring.turns.runtime import End, Turn, abandoned, end_turn, failed
from mainspring.workspace import TimeMachine


class Session:
    """Use `async with`; inside it a turn may run. An approver answers questions, or else `approve` does."""

    def __init__(self, recorder: Recorder, parts: Parts) -> None:
        self._recorder = recorder
        self._journal = recorder.journal
        self._parts = parts
        self._group = asyncio.TaskGroup()
        self._worker: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._feed = Feed(self._journal, last_seq=0)
        self._questions = Questions(
            self._refusal, approver=parts.approver, timeout_s=parts.approval_timeout_s, inbox=parts.inbox
        )
        self._opened = (0, 0)
        self._sandbox: Sandbox | None = None
        self._choosing, self._rewriting = asyncio.Lock(), asyncio.Lock()
        self._is_proceeding = False
        self.state = State(self.vault)
        self.handles = Handles(parts.processes, lambda: self.state.processes)
        self.guards = Guards(parts.idle_steps)
        self.compact_at, self.nested, self.reach = parts.compact_at, parts.nested, parts.reach
        self.policy, self.files, self.scopes = parts.policy, parts.files, parts.scopes
        others = (*parts.fallbacks, *parts.tiers.values())
        self._lineup = ModelPool(parts.model, others, connect=parts.connect, ready=parts.ready)
        self._projection = Projection(parts.model.encode)

    @property
    def id(self) -> str:
        return self._recorder.session

    @property
    def vault(self) -> Vault:
        return self._recorder.vault

    @property
    def history(self) -> History:
        return self._projection.history

    @property
    def journal(self) -> JournalReader:
        return self._journal

    @property
    def opened_seq(self) -> int:
        """The number of the last event before this process opened the session."""
        return self._opened[0]

    @property
    def model(self) -> Model:
        return self._lineup.current

    @property
    def toolbox(self) -> Toolbox:
        return self._parts.toolbox

    @property
    def limits(self) -> Limits:
        return self.state.limits if self.state.is_turn_open else self._parts.limits

    @property
    def parent(self) -> Turn | None:
        return self._parts.parent

    @property
    def day(self) -> Day | None:
        return self._parts.day

    @property
    def output(self) -> OutputType | None:
        return self._parts.output

    @property
    def time_machine(self) -> TimeMachine:
        return self._parts.time_machine

    @property
    def is_running(self) -> bool:
        return self._worker is not None and not self._worker.done()

    async def __aenter__(self) -> Self:
        try:
            await self._begin()
        except BaseException:
            await self._close()
            raise
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._failure is None:
                await self.stop()
                await self.emit(*await end_all(self.state.processes))
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup:
            # The group wraps our failure, or the caller's own error, which goes on by itself.
            if self._failure is not None:
                raise self._failure from None
        finally:
            await self._close()

    async def say(self, text: str, media: Sequence[Media] = (), *, after: Sequence[Event] = ()) -> None:
        """Says something to the model: it starts a turn, or enters the running one between two steps.
        Approvals that are still open are abandoned. The events in `after` are recorded with it, before it."""
        if not text.strip() and not media:
            raise UsageError("There is nothing to say: the text is empty.")
        async with self._rewriting:
            self._questions.abandon()
            left = () if self.is_running else tuple(map(abandoned, self.state.open_calls))
            await self.emit(*left, *after, UserSaid(text=whole_characters(text), media=tuple(media)))
            if any(isinstance(event, Compacted) for event in after):
                await self._projection.load(self._journal, until=self._feed.last_seq)
            self._ensure_worker()

    async def ask(self, text: str = "") -> Reply:
        """Says something, or goes on without a text, and gives the answer of that turn."""
        return await take_reply(self, text)

    async def note(self, text: str, source: str = "user") -> None:
        """Tells the model something between two steps, without asking for anything."""
        await self.emit(NoteAdded(text=whole_characters(text), source=source))

    async def proceed(self) -> bool:
        """Goes on with what was interrupted, blocked or limited; False when nothing was."""
        if not self._is_turn_wanted:
            if self.history.is_answered and not self.state.open_calls:
                return False
            self._is_proceeding = True
        self._ensure_worker()
        return True

    async def approve(
        self,
        call: str,
        decision: Decision = "allow",
        *,
        arguments_sha256: str,
        feedback: str = "",
        edited_arguments: str | None = None,
    ) -> None:
        """Answers an open question once. The hash binds the answer to the arguments that the person saw."""
        given = ApprovalGiven(
            call=call,
            arguments_sha256=arguments_sha256,
            decision=decision,
            feedback=feedback,
            edited_arguments=edited_arguments,
        )
        await self.answer(given)

    async def answer(self, given: ApprovalGiven) -> None:
        """Answers an open question, also one of a turn that is blocked: `proceed` then goes on with it."""
        if not self._questions.answer(given):
            await self.emit(given)

    async def stop(self) -> None:
        """Ends the running turn as interrupted, its calls closed; returns when that is on record."""
        self.stop_soon()
        if self._worker is not None:
            await asyncio.wait({self._worker})

    def stop_soon(self) -> None:
        """Asks the running turn to stop, from a signal handler or a callback."""
        if self._worker is not None:
            # Soon, not now: a worker that was made a moment ago has begun by then, and records its end.
            asyncio.get_running_loop().call_soon(self._worker.cancel)

    async def undo(self, scope: Extent = "conversation") -> UserSaid:
        """Takes back the last turn that counts, and gives what the user had said."""
        seq, said = await last_turn(self._journal, scope)
        await self.rewind(seq - 1, scope)
        return said

    async def rewind(self, to_seq: int, scope: Extent = "conversation") -> WentBack:
        """Goes back to how the conversation, the files or both were after an event."""
        async with self._rewritten("going back"):
            went = await go_back(self._recorder, self.state.workspace, to_seq, scope)
            await self._projection.load(self._journal, until=self._feed.last_seq)
            return went

    async def compact(self) -> Compacted:
        """Replaces old history by a summary; the journal keeps everything."""
        async with self._rewritten("compact"):
            if compacted := await self.shorten("asked"):
                return compacted
        raise UsageError("Nothing in the history can be left out.", remedy="`mainspring context` shows it.")

    async def expand(self) -> None:
        """Takes the last compaction back: the history is whole again."""
        async with self._rewritten("expand"):
            start = await fresh_start(self._journal)
            await self._replace_history(Compacted(summary="", keep_from_seq=start, reason="taken back"))

    async def shorten(self, reason: str) -> Compacted | None:
        if self._parts.compactor is None:
            return None
        until = self._feed.last_seq
        compacted = await self._parts.compactor(self, self._journal, reason=reason, until=until)
        if compacted:
            await self._replace_history(compacted)
        return compacted

    async def _replace_history(self, event: Compacted) -> None:
        await self.emit(event)
        await self._projection.load(self._journal, until=self._feed.last_seq)

    async def recall(self, name: str) -> bytes:
        return await recall(self._journal, name)

    async def set_model(self, name: str, reason: str = "asked for") -> None:
        """Goes on with another model, or tier, from the next step on."""
        model = self._lineup.find(name).name
        rest = tuple(other for other in self.state.fallbacks if other != model)
        tier = self._parts.tier_of(name, model)
        await self.emit(ModelChosen(model=model, reason=reason, fallbacks=rest, tier=tier))

    async def set_effort(self, effort: Effort | None) -> None:
        """Says how hard to think from the next step on."""
        await self.emit(EffortChosen(effort=effort))

    async def take_model(self) -> Model:
        if self.state.model != self.model.name:
            model = await self._lineup.take(self.state.model)
            self._projection = Projection(model.encode)
            await self._projection.load(self._journal, until=self._feed.last_seq)
        return self.model

    async def run(self, text: str = "") -> AsyncGenerator[Event]:
        """Says something (or goes on, without a text) and gives each event until the turn has ended."""
        async with aclosing(self.watch(text)) as recorded:
            async for item in recorded:
                yield item.event

    async def watch(self, text: str = "", media: Sequence[Media] = ()) -> AsyncGenerator[Recorded]:
        """As `run`, with the number and time of each event; a delta has the number 0. What was recorded when
        the session was opened comes first, if nothing has happened since."""
        before, opened = self._opened
        after = before if self._feed.last_seq == opened else self._feed.last_seq
        if text:
            await self.say(text, media)
        elif not await self.proceed():
            return
        async with aclosing(self.subscribe(after, deltas=True)) as events:
            async for item in events:
                yield item
                if isinstance(item.event, TurnEnded) and not self._is_turn_wanted:
                    return

    def subscribe(self, after: int = 0, *, deltas: bool = False) -> AsyncGenerator[Recorded]:
        """Every event with a number above `after`, in order, without a gap or a double, then what comes.
        With `deltas` also what is shown and not stored, as far as the subscriber keeps up."""
        return self._feed.subscribe(after, deltas=deltas)

    async def emit(self, *events: Event) -> None:
        """Records what happened, without secrets."""
        await self._recorder.record(*events)

    def show(self, delta: Delta) -> None:
        self._feed.show(delta)

    async def ask_person(self, question: ApprovalAsked) -> ApprovalGiven | None:
        open_call = self.state.open_call(question.call)
        if open_call is not None and open_call.answer is not None:
            return open_call.answer
        with self._questions.opened(question):
            if open_call is None or open_call.question is None:
                await self.emit(question)
            given = await self._questions.first_answer(question.call)
        if given is not None:
            await self.emit(given)
            self._questions.recorded(question.call)
        return given

    async def grant(self, *grants: Grant) -> None:
        if self._parts.grants is None:
            raise UsageError("This session was built without a place for grants, so answer once.")
        for grant in grants:
            await asyncio.to_thread(self._parts.grants.add, grant)

    async def sandbox(self) -> Sandbox:
        async with self._choosing:
            if self._sandbox is None:
                self._sandbox = await self._parts.sandbox()
                await self.emit(SandboxChosen(rung=self._sandbox.name))
            return self._sandbox

    async def remember(self, text: str) -> None:
        if self._parts.memory:
            await asyncio.to_thread(self._parts.memory.add, text, f"agent, session {self.id}")

    async def put_blob(self, data: bytes, media_type: str) -> Blob:
        return await self._recorder.put_blob(data, media_type)

    async def get_blob(self, blob: Blob) -> bytes:
        return await self._recorder.get_blob(blob)

    async def _begin(self) -> None:
        await complete(self._recorder, Path(self._parts.workspace))
        before = self._feed.last_seq = await self._journal.last_seq()
        if self._feed.last_seq:
            self.state, self.guards, _ = await asyncio.gather(  # one folds while another reads
                load_state(self._journal, self.vault),
                load_guards(self._journal, self._parts.idle_steps),
                self._projection.load(self._journal, until=self._feed.last_seq),
            )
        self._recorder.subscribe(self._on_appended)
        is_new = not self.state.session
        more = await self._parts.beginning() if is_new and self._parts.beginning else ()
        await self.emit(*opening(self._parts, self.state, self.id), *more)
        await record_lost(self)
        self._questions.sweep()
        self._opened = (before, self._feed.last_seq)

    async def _close(self) -> None:
        self._feed.close(self._failure)
        try:
            await self.time_machine.close()
            if self._sandbox is not None:
                await self._sandbox.close()
            await self._lineup.close()
        finally:
            await self._recorder.close()

    async def ended_calls(self, calls: Collection[str] = ()) -> Mapping[str, CallEnded]:
        return await ended_calls(self._journal, calls)

    def _on_appended(self, recorded: Sequence[Recorded]) -> None:
        for item in recorded:
            self.state.apply(item)
            self.guards.apply(item)
            self._projection.apply(item)
            self._feed.publish(item)

    @property
    def _is_turn_wanted(self) -> bool:
        """Whether a turn runs or is to begin, also because something was said while the last one ended."""
        return self.state.is_turn_wanted or self._is_proceeding

    def _ensure_worker(self) -> None:
        if not self.is_running:
            if self._worker is None:
                self._group.create_task(self.time_machine.prepare())
            self._worker = self._group.create_task(self._take_turns())

    async def _take_turns(self) -> None:
        try:
            while self._is_turn_wanted:
                if not self.state.is_turn_open:
                    await self._route()
                    schema, turn = self.output.schema if self.output else None, self.state.turn + 1
                    limits = self._parts.limits
                    await self.emit(TurnStarted(turn=turn, limits=limits, output_schema=schema))
                self._is_proceeding = False
                await self._parts.engine(self)
        except asyncio.CancelledError:
            if self.state.is_turn_open:
                await end_turn(self, End("interrupted", "Stopped by request."))
            raise
        except Exception as error:
            self._failure = error
            await self._record_failure(error)
            self._feed.close(error)
            raise

    async def _route(self) -> None:
        if self._parts.router is not None:
            tokens = self.history.estimated_tokens(self.state.prompt_size)
            await self.emit(*await self._parts.router.before_turn(self.state, self._journal, tokens))

    async def _record_failure(self, error: Exception) -> None:
        """Leaves a terminal event behind a fault, as long as the journal can still take one."""
        try:
            if not isinstance(error, MainspringError):
                await self.emit(Crashed(traceback="".join(traceback.format_exception(error))))
            await end_turn(self, failed(error))
        except MainspringError as unwritable:
            error.add_note(f"The end of the turn could not be recorded: {unwritable.message}")

    def _refusal(self, given: ApprovalGiven) -> str:
        return self.state.requests.refusal(given)

    @asynccontextmanager
    async def _rewritten(self, what: str) -> AsyncGenerator[None]:
        """While the history is rewritten no turn runs, and what is said waits."""
        async with self._rewriting:
            if self.is_running and self._is_turn_wanted:
                raise UsageError(f"A turn is running, so {what} has to wait.", remedy="Stop the turn first.")
            yield

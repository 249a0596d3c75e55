"""What people command and watch: one session, its one running turn, and what is told of it.

Everything that happens is recorded first and published after. Faces send commands (`say`, `note`, `approve`,
`stop`, `undo`, `compact`) and watch events; they never call the loop. A slow subscriber loses deltas, never
an event, and never holds up a turn. What turns work with is the `Runtime`.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from mainspring.context.history import fresh_start
from mainspring.errors import InvalidValue, JournalUnreachable, MainspringError, UsageError, require_type
from mainspring.events import (
    ApprovalGiven,
    Compacted,
    Crashed,
    Decision,
    Effort,
    EffortChosen,
    Event,
    Extent,
    Media,
    ModelChosen,
    NoteAdded,
    Origin,
    Recorded,
    TurnStarted,
    UserSaid,
)
from mainspring.events.escaping import whole_characters
from mainspring.folds.processes import end_all
from mainspring.folds.state import State
from mainspring.journal import JournalReader
from mainspring.secrets.injection import suspicions
from mainspring.secrets.recorder import check_event
from mainspring.session.arguments import require_media_type, require_text
from mainspring.session.commands import carry_out, catch_up, is_over, until_next_look
from mainspring.session.opening import Opening, age_note, output_type
from mainspring.tools.output import OutputType
from mainspring.turns.endings import STOPPED, abandoned, end_turn, failed
from mainspring.turns.lost_calls import record_lost
from mainspring.turns.runtime import Engine, Runtime

if TYPE_CHECKING:
    from mainspring.session.reply import Reply
    from mainspring.session.rewind import WentBack

T = TypeVar("T")
_REWIND = "mainspring.session.rewind"


class Session:
    """Use `async with`; inside it a turn may run. An approver answers questions, or else `approve` does."""

    def __init__(
        self, runtime: Runtime, *, engine: Engine, opening: Opening, output: OutputType | None = None
    ) -> None:
        self._runtime = runtime
        self._engine = engine
        self._opening = opening
        self._output = output
        self._group = asyncio.TaskGroup()
        self._worker: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._opened = (0, 0)
        self._rewriting = asyncio.Lock()
        self._is_proceeding = False

    @property
    def id(self) -> str:
        return self._runtime.recorder.session

    @property
    def state(self) -> State:
        """What the journal says now; it is read, never changed, from outside."""
        return self._runtime.state

    @property
    def journal(self) -> JournalReader:
        return self._runtime.journal

    @property
    def opened_seq(self) -> int:
        """The number of the last event before this process opened the session."""
        return self._opened[0]

    @property
    def output(self) -> OutputType | None:
        """What answers must be, unless a question wants something else; None when they are text."""
        return self._output

    @property
    def is_running(self) -> bool:
        return self._worker is not None and not self._worker.done()

    async def __aenter__(self) -> Self:
        try:
            await self._begin()
        except BaseException:
            await self._runtime.close(self._failure)
            raise
        await self._group.__aenter__()
        if self._runtime.approvals.inbox:
            self._listener = self._group.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            try:
                if self._listener is not None:
                    self._listener.cancel()
                if self._failure is None:
                    await self.stop()
                    await catch_up(self._runtime, is_closing=True)
                    await self._runtime.record(*await end_all(self.state.processes))
                # Breaks off its first look at the workspace, which is a task of the group.
                await self._runtime.workbench.time_machine.close()
            except asyncio.CancelledError as cancelled:  # by the group, perhaps, because a turn failed
                kind, error = type(cancelled), cancelled
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup:
            # The group wraps our failure, or the caller's own error, which goes on by itself.
            if self._failure is not None:
                raise self._failure from None
        finally:
            await self._runtime.close(self._failure)

    async def say(
        self, text: str, media: Sequence[Media] = (), *, after: Sequence[Event] = (), output: Any = None
    ) -> None:
        """Says something to the model: it starts a turn, or enters the running one between two steps.
        Approvals that are still open are abandoned. The events in `after` are recorded with it, before it.
        The turn that it starts answers with `output`, a type or schema as `mainspring.open` takes it."""
        require_type(media, Sequence, "media")
        require_type(after, Sequence, "after")
        require_text(text, media)
        schema = wanted.schema if (wanted := output_type(output, self._opening.engine_name)) else None
        said = UserSaid(text=whole_characters(text), media=tuple(media), output_schema=schema)
        check_event(said)
        await self._say(said, after)

    async def _say(self, said: UserSaid, after: Sequence[Event] = ()) -> None:
        noted = await self._runtime.vet(said)
        async with self._rewriting:
            if said.output_schema is not None and self.is_turn_wanted:
                raise UsageError(
                    "A turn is running; what it answers with cannot be changed.",
                    remedy="Wait for its end, or stop it first.",
                )
            self._runtime.approvals.questions.abandon()
            left = () if self.is_running and self.state.is_turn_open else self.state.open_calls
            await self._runtime.record(*map(abandoned, left), *after, *noted, said)
            if any(isinstance(event, Compacted) for event in after):
                await self._runtime.load_history()
            self._ensure_worker()

    @overload
    async def ask(self, text: str = "") -> Reply: ...

    @overload
    async def ask(self, text: str = "", *, output: type[T]) -> Reply[T]: ...

    @overload
    async def ask(self, text: str = "", *, output: Any) -> Reply: ...

    async def ask(self, text: str = "", *, output: Any = None) -> Reply:
        """Says something, or goes on without a text, and gives the answer of that turn. `Reply.output` is
        then a value of the type `output`, or else of the one that the session was opened with."""
        take_reply = import_module("mainspring.session.reply").take_reply
        return await take_reply(self, text, output_type(output, self._opening.engine_name))

    async def attach(self, data: bytes, media_type: str, name: str = "") -> Media:
        """Keeps content in the journal, to be shown to the model with what is said."""
        require_type(data, bytes, "data")
        require_media_type(media_type)
        text = data.decode("utf-8", "replace") if media_type.startswith("text/") else ""
        blob = await self._runtime.recorder.put_blob(data, media_type)
        shown = Media(blob=blob, name=name, suspicious=suspicions(text))
        check_event(UserSaid(text="", media=(shown,)))
        return shown

    async def note(self, text: str, source: str = "user") -> None:
        """Tells the model something between two steps, without asking for anything."""
        require_type(source, str, "source")
        require_text(text)
        quotes = () if source == "user" else suspicions(text)
        await self._runtime.record(NoteAdded(text=whole_characters(text), source=source, suspicious=quotes))

    async def hear(self, said: Event) -> None:
        """Takes what was said or given to another process, as it shall be recorded."""
        await (self._say(said) if isinstance(said, UserSaid) else self._runtime.record(said))

    async def proceed(self) -> bool:
        """Goes on with what was interrupted, blocked or limited; False when nothing was."""
        if not self.is_turn_wanted:
            if self._runtime.history.is_answered and not (self.state.open_calls or self.state.was_stopped):
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
        require_type(given, ApprovalGiven, "given")
        check_event(given)
        await self._runtime.approvals.take(given)

    async def stop(self, by: Origin | None = None) -> None:
        """Ends the running turn as interrupted, its calls closed; returns when that is on record. `by` is who
        asked for it, when that is not this process."""
        if by is not None:
            require_type(by, Origin, "by")
        self._runtime.stopped_by = by
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
        seq, said = await import_module(_REWIND).last_turn(self.journal, scope)
        await self.rewind(seq - 1, scope)
        return said

    async def rewind(self, to_seq: int, scope: Extent = "conversation") -> WentBack:
        """Goes back to how the conversation, the files or both were after an event."""
        async with self._rewritten("going back"):
            recorder, imported = self._runtime.recorder, self._opening.imported
            go_back = import_module(_REWIND).go_back
            went = await go_back(recorder, self.state.workspace, to_seq, scope, imported=imported)
            await self._runtime.load_history()
            return went

    async def compact(self) -> Compacted:
        """Replaces old history by a summary; the journal keeps everything."""
        async with self._rewritten("compact"):
            if compacted := await self._runtime.compact("asked"):
                return compacted
        raise UsageError(
            "The history is too short to compact.", remedy="`mainspring context` shows its size."
        )

    async def expand(self) -> None:
        """Takes the last compaction back: the history is whole again."""
        async with self._rewritten("expand"):
            start = await fresh_start(self.journal)
            await self._runtime.record(Compacted(summary="", keep_from_seq=start, reason="taken back"))
            await self._runtime.load_history()

    async def set_model(self, name: str, reason: str = "asked for") -> None:
        """Goes on with another model, or tier, from the next step on."""
        require_type(name, str, "name")
        model = self._runtime.models.find(name).name
        rest = tuple(other for other in self.state.fallbacks if other != model)
        tier = self._opening.models.tier_of(name, model)
        await self._runtime.record(ModelChosen(model=model, reason=reason, fallbacks=rest, tier=tier))

    async def set_effort(self, effort: Effort | None) -> None:
        """Says how hard to think from the next step on."""
        await self._runtime.record(EffortChosen(effort=effort))

    async def run(self, text: str = "", *, output: Any = None) -> AsyncGenerator[Event]:
        """Says something (or goes on, without a text) and gives each event until the turn has ended."""
        async with aclosing(self.watch(text, output=output)) as recorded:
            async for item in recorded:
                yield item.event

    async def watch(
        self, text: str = "", media: Sequence[Media] = (), *, output: Any = None
    ) -> AsyncGenerator[Recorded]:
        """As `run`, with the number and time of each event; a delta has the number 0. What was recorded when
        the session was opened comes first, if nothing has happened since."""
        require_type(text, str, "text")
        before, opened = self._opened
        after = before if self._runtime.feed.last_seq == opened else self._runtime.feed.last_seq
        if text or media:
            await self.say(text, media, output=output)
        elif not await self.proceed():
            return
        async with aclosing(self.subscribe(after, deltas=True)) as events:
            async for item in events:
                yield item
                if await is_over(self, self._runtime, item.event, says_queued=not (text or media)):
                    return

    def subscribe(self, after: int = 0, *, deltas: bool = False) -> AsyncGenerator[Recorded]:
        """Every event with a number above `after`, in order, without a gap or a double, then what comes.
        With `deltas` also what is shown and not stored, as far as the subscriber keeps up."""
        require_type(after, int, "after")
        return self._runtime.feed.subscribe(max(after, 0), deltas=deltas)

    async def _begin(self) -> None:
        runtime, place = self._runtime, Path(self._opening.workspace)
        if await runtime.journal.last_seq():
            complete = import_module(_REWIND).complete
            await complete(runtime.recorder, place, imported=self._opening.imported)
        await runtime.load()
        before, tools = runtime.feed.last_seq, runtime.workbench.toolbox.specs
        now_us, scan = runtime.workbench.reach.clock(), runtime.workbench.files.scan
        age = await age_note(self.journal, place, now_us, scan) if before else ()
        await runtime.record(*await self._opening.events(self.state, self.id, tools), *age)
        await record_lost(runtime)
        runtime.approvals.questions.sweep()
        await catch_up(runtime)
        self._opened = (before, runtime.feed.last_seq)

    @property
    def is_turn_wanted(self) -> bool:
        """Whether a turn runs or is to begin, also because something was said while the last one ended."""
        return self.state.is_turn_wanted or self._is_proceeding

    def _ensure_worker(self) -> None:
        if not self.is_running:
            if self._worker is None:
                self._group.create_task(self._runtime.workbench.time_machine.prepare())
            self._worker = self._group.create_task(self._take_turns())

    async def _take_turns(self) -> None:
        try:
            while self.is_turn_wanted:
                if not self.state.is_turn_open:
                    await self._begin_turn()
                self._is_proceeding = False
                await self._engine(self._runtime)
                await self._runtime.keep_folds()
        except asyncio.CancelledError:
            if self.state.is_turn_open:
                await end_turn(self._runtime, STOPPED)
            raise
        except Exception as error:
            self._failure = error
            await self._record_failure(error)
            self._runtime.feed.close(error)
            raise

    async def _begin_turn(self) -> None:
        """What is being said, with a history made fresh for it, is whole before its turn begins."""
        async with self._rewriting:
            await self._route()
            usual = self.output.schema if self.output else None
            schema, turn = self.state.wanted_schema or usual, self.state.turn + 1
            started = TurnStarted(turn=turn, limits=self._runtime.budget.limits, output_schema=schema)
            await self._runtime.record(started)

    async def _listen(self) -> None:
        """Does what other processes ask for, as long as the session is open."""
        try:
            while True:
                await carry_out(self, self._runtime)
                await until_next_look(self.state)
        except Exception as error:
            self._failure = error
            self._runtime.feed.close(error)
            raise

    async def _route(self) -> None:
        if router := self._opening.models.router:
            tokens = self._runtime.history.estimated_tokens(self.state.prompt_size)
            await self._runtime.record(*await router.before_turn(self.state, self.journal, tokens))

    async def _record_failure(self, error: Exception) -> None:
        """Leaves a terminal event behind a fault, as long as the journal can still take one."""
        try:
            if not isinstance(error, MainspringError) or isinstance(error, InvalidValue):
                await self._runtime.record(Crashed(traceback="".join(traceback.format_exception(error))))
            if not isinstance(error, JournalUnreachable):  # the turn stays open for whoever goes on
                await end_turn(self._runtime, failed(error))
        except MainspringError as unwritable:
            error.add_note(f"The end of the turn could not be recorded: {unwritable.message}")

    @asynccontextmanager
    async def _rewritten(self, what: str) -> AsyncGenerator[None]:
        """While the history is rewritten no turn runs, and what is said waits."""
        async with self._rewriting:
            if self.is_running and self.is_turn_wanted:
                raise UsageError(
                    f"A turn is running; {what} is not possible now.", remedy="Stop the turn first."
                )
            yield


def runtime_of(session: Session) -> Runtime:
    """What the turns of a session work with, for other work inside this package: goals record through it."""
    return session._runtime

"""What a turn, an engine, a wait and a call work with: the recorder of a session, what its journal says now,
and the things it was opened with.

The other files here are the parts of a turn; `loop.py` puts them together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from mainspring.catalog import Day
from mainspring.context.guards import IDLE_STEPS, Guards, load_guards
from mainspring.context.history import History, Projection
from mainspring.context.work import UNASSISTED, WorkSettings
from mainspring.errors import JournalError
from mainspring.events import (
    Compacted,
    Delta,
    Event,
    FilesChanged,
    Limits,
    Origin,
    Recorded,
    SandboxChosen,
    StatusDelta,
    UserSaid,
)
from mainspring.folds.caps import TeamCaps
from mainspring.folds.ledger import TimeLeft
from mainspring.folds.processes import Handles
from mainspring.folds.state import State, load_state
from mainspring.journal import JournalReader
from mainspring.models import Model
from mainspring.models.pool import ModelPool
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.secrets.recorder import Recorder
from mainspring.tools.toolbox import Prepared, Toolbox
from mainspring.turns.feed import Feed
from mainspring.turns.permissions import Approvals, Permissions
from mainspring.turns.session_sandbox import SessionSandbox
from mainspring.waits.reach import Reach, WaitContext
from mainspring.workspace import TimeMachine, Unrecorded
from mainspring.workspace.instructions import NestedInstructions
from mainspring.workspace.memory import ProjectMemory

if TYPE_CHECKING:
    from mainspring.approvals.permit import Permitted
    from mainspring.turns.router import Router

COMPACT_AT = 0.8
CHECKPOINT_EVENTS = 2000
"""After how many new events the folds are kept again."""

_CHECKPOINT = "mainspring.turns.checkpoint"  # loaded when there is one to read or to write
_RUNS_COMMANDS = "shell"


class Engine(Protocol):
    """Who takes a turn: the built-in loop, or an outside agent."""

    async def __call__(self, runtime: Runtime, /) -> None:
        """Returns after a `TurnEnded` was recorded, or raises when that was not possible."""
        ...


class TurnHooks(Protocol):
    """What people put around turns (hooks): a say in what is said, and in whether a turn may end."""

    async def before_prompt(self, said: UserSaid) -> Sequence[Event]:
        """What is recorded with something that is said; raises `PromptRefused` when it may not be said."""
        ...

    async def before_end(self) -> bool:
        """Whether the turn goes on instead of ending as done; why is on record then."""
        ...

    async def after_calls(self) -> str:
        """Tells of calls that have ended; why the turn is to end now, or nothing."""
        ...


CALLS = "mainspring.turns.calls"
"""The path of a call, which is loaded when a reply has come, or before, while the model thinks."""


class HistoryCompactor(Protocol):
    """Who makes a long history short."""

    async def __call__(self, runtime: Runtime, /, *, reason: str, until: int) -> Compacted | None:
        """What to record about the history up to an event, or None when nothing can be left out."""
        ...


class ChangeChecks(Protocol):
    """Looks at changed files between two steps, and records what there is to say about them. Gives why the
    turn fails, where it must not end so."""

    async def __call__(self, runtime: Runtime, /) -> str: ...

    async def close(self) -> None: ...


class RegressionGuard(Protocol):
    """Knows what the project's tests said before a turn changed anything, and says what is worse since."""

    @property
    def is_measuring(self) -> bool:
        """Whether runs of all tests also tell which lines they reached."""
        ...

    async def is_due(self, runtime: Runtime, /) -> bool:
        """Whether the turn has changed nothing yet, and the tests should run before it does."""
        ...

    async def before_calls(self, runtime: Runtime, /) -> None:
        """Runs the tests before the open calls, if that is due."""
        ...

    async def comparison(self, runtime: Runtime, /) -> Any:
        """What compares a result with that (`turns.suite.Compare`); None when there is nothing to compare."""
        ...

    async def tell_broken(self, runtime: Runtime, ran: Any, project: Any, /) -> bool:
        """Tells the model what a run after a change shows to be broken; whether there was anything new."""
        ...

    async def after_step(self, runtime: Runtime, /) -> None:
        """Tells which tests were made weaker. Before a turn that changed files ends, runs all tests, and
        tells what is broken, a few times."""
        ...


class Workbench(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of a session work with. `choose_sandbox` is asked when a sandbox is first needed;
    `load_for_commands` loads, in a thread, the code that a first command needs besides; `processes` is the
    folder of background processes; `nested` finds the instructions of subfolders."""

    toolbox: Toolbox
    files: Files
    choose_sandbox: Callable[[], Awaitable[Sandbox]]
    load_for_commands: Callable[[], None] = lambda: None
    time_machine: TimeMachine = Unrecorded()
    processes: Path | None = None
    nested: NestedInstructions | None = None
    memory: ProjectMemory | None = None
    reach: Reach = Reach()
    work: WorkSettings = UNASSISTED


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent: `limits` are those of the next turn, `parent` is whose caps are shared, `day` counts
    what all sessions spend, and `team` what their people do."""

    limits: Limits = Limits()
    parent: Runtime | None = None
    day: Day | None = None
    team: TeamCaps | None = None


class Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """When history is made short (at a share of the model's window) and by whom, and after how many steps
    without progress a turn counts as stuck."""

    compactor: HistoryCompactor | None = None
    compact_at: float = COMPACT_AT
    idle_steps: int = IDLE_STEPS
    router: Router | None = None
    checkpoint: Path | None = None
    """The file in which folds are kept, so that a long session opens quickly."""
    checks: ChangeChecks | None = None
    """Who looks at what each step changed; None when nobody does."""
    guard: RegressionGuard | None = None
    """Who compares the project's tests with what they said before the turn; None when nobody does."""
    review: Callable[[Runtime], Awaitable[str]] | None = None
    """Who reviews what a turn changed before it is done, and gives why it may not be; None: nobody."""


class Runtime:
    """`record` returns once the events are durable and folded into `state`, `history` and `guards`, which
    never hold what the journal does not. `last_seq` is the newest event that they know; watchers are told of
    it by `feed`, when it is durable."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        models: ModelPool,
        workbench: Workbench,
        permissions: Permissions,
        budget: Budget,
        upkeep: Upkeep,
    ) -> None:
        self.recorder = recorder
        self.models = models
        self.workbench = workbench
        self.budget = budget
        self.upkeep = upkeep
        self.state: State = State(recorder.vault)
        self.guards = Guards(upkeep.idle_steps)
        self.last_seq = 0
        self.feed = Feed(recorder.journal, last_seq=0)
        self.approvals = Approvals(recorder, permissions, lambda: self.state, workbench.toolbox.edit_problem)
        self.handles = Handles(workbench.processes, lambda: self.state.processes)
        self.hooks: TurnHooks | None = None
        self.is_recalled = True
        """Whether the files count as seen that an earlier process of this session showed."""
        self.changed_seq: int | None = None
        """The newest change of files on record, 0 when there is none; None when only the journal knows."""
        self.stopped_by: Origin | None = None
        """Who asked from another process that the turn be stopped."""
        self.started: dict[str, Permitted[Prepared]] = {}
        """Calls whose start is on record, or about to be, and whose tool did not begin yet."""
        self._projection = Projection(models.current.encode)
        self._kept_seq = 0
        self.commands = SessionSandbox(workbench.choose_sandbox, workbench.load_for_commands)

    @property
    def journal(self) -> JournalReader:
        return self.recorder.journal

    @property
    def history(self) -> History:
        return self._projection.history

    @property
    def limits(self) -> Limits:
        """The caps that hold: of the open turn, else of the next one."""
        return self.state.limits if self.state.is_turn_open else self.budget.limits

    @property
    def waiting(self) -> WaitContext:
        """What a wait of this session works with."""
        return WaitContext(
            state=self.state,
            handles=self.handles,
            files=self.workbench.files,
            reach=self.workbench.reach,
            sandbox=self.sandbox,
            record=self.record,
            show=self.show,
        )

    async def load(self) -> None:
        """Folds what is on record, and from here on whatever is recorded."""
        loop = asyncio.get_running_loop()

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(self.show, StatusDelta(text=text))

        self.workbench.files.scan.on_progress = tell
        self.last_seq = self.feed.last_seq = await self.journal.last_seq()
        if not self.last_seq:
            self.changed_seq = 0
        else:
            self.is_recalled = False
            self.workbench.toolbox.seen.is_partial = True
            await self._load_folds()
        self.recorder.subscribe(self._on_recorded, self.feed.publish)

    async def _load_folds(self) -> None:
        guards = load_guards(self.journal, self.upkeep.idle_steps)
        self.guards, kept = await asyncio.gather(guards, self._load_checkpoint())
        if kept is None:  # one folds while another reads
            state = load_state(self.journal, self.recorder.vault)
            self.state, _ = await asyncio.gather(state, self.load_history())
            return
        self.state, self._kept_seq = kept.state, kept.kept_seq
        if kept.history is None:
            await self.load_history()
        else:
            self._projection.history = kept.history

    async def _load_checkpoint(self) -> Any:
        file, until = self.upkeep.checkpoint, self.last_seq
        if file is None or not await asyncio.to_thread(file.exists):
            return None
        load, model = import_module(_CHECKPOINT).load_checkpoint, self.models.current
        return await load(file, self.journal, self.recorder.vault, model, until=until)

    async def keep_folds(self) -> None:
        """Keeps the folds in a file, when enough is new since that was done."""
        file, seq = self.upkeep.checkpoint, self.last_seq
        if file is None or seq - self._kept_seq < CHECKPOINT_EVENTS:
            return
        keep, model = import_module(_CHECKPOINT).keep_checkpoint, self.models.current
        await keep(
            file,
            self.journal,
            self.recorder.vault,
            model,
            seq=seq,
            state=self.state,
            projection=self._projection,
        )
        self._kept_seq = seq  # not when it was cancelled: whoever closes the session does it then

    async def load_history(self) -> None:
        """Projects the history anew, after something was taken out of it."""
        await self._projection.load(self.journal, until=self.last_seq)

    async def record(self, *events: Event, is_durable: bool = True) -> None:
        """Records what happened, without secrets. What something durable follows at once need not be durable
        itself: see `Journal.append`."""
        await self.recorder.record(*events, is_durable=is_durable)

    async def vet(self, said: UserSaid) -> Sequence[Event]:
        """What is recorded with something that is said; raises `PromptRefused` when a hook is against it."""
        return await self.hooks.before_prompt(said) if self.hooks else ()

    def show(self, delta: Delta) -> None:
        """Shows what is not recorded."""
        self.feed.show(delta)

    @property
    def has_shell(self) -> bool:
        """Whether a model may want commands run."""
        return self.workbench.toolbox.tool(_RUNS_COMMANDS) is not None

    def expect_call(self, tool: str) -> None:
        """Gets ready for a call that the model is still writing."""
        if tool == _RUNS_COMMANDS:
            self.commands.expect()
        known = self.workbench.toolbox.tool(tool)
        if known and known.effect not in ("none", "read"):
            self.workbench.time_machine.expect()

    async def sandbox(self) -> Sandbox:
        """Where commands run; chosen, and recorded, when it is first needed."""
        return await self.commands.get(lambda chosen: self.record(SandboxChosen(rung=chosen.name)))

    async def take_model(self) -> Model:
        """The model that the journal names by now, with the history projected for it, in the form in which it
        takes calls by now."""
        if self.state.model != self.models.current.name:
            await self.models.take(self.state.model)
        encode = self.models.current.encode
        if self._projection.encode != encode:
            self._projection = Projection(encode)
            await self.load_history()
        return self.models.current

    async def compact(self, reason: str) -> Compacted | None:
        """Makes the history short, on record; None when nothing can be left out."""
        if self.upkeep.compactor is None:
            return None
        compacted = await self.upkeep.compactor(self, reason=reason, until=self.last_seq)
        if compacted:
            await self.record(compacted)
            await self.load_history()
        return compacted

    async def close(self, failure: BaseException | None = None) -> None:
        """Ends the subscribers, and closes all that was given; a full disk does not hide a `failure`."""
        self.feed.close(failure)
        try:
            if failure is None:
                await self.keep_folds()
            await self.workbench.time_machine.close()
            if self.upkeep.checks:
                await self.upkeep.checks.close()
            await self.commands.close()
            await self.models.close()
        finally:
            try:
                await self.recorder.close()
            except JournalError as error:
                if failure is None:
                    raise
                failure.add_note(f"What went before it could not be recorded: {error.message}")

    def _on_recorded(self, recorded: Sequence[Recorded]) -> None:
        for item in recorded:
            self.state.apply(item)
            self.guards.apply(item)
            self._projection.apply(item)
            self.feed.add(item)
            if isinstance(item.event, FilesChanged):
                self.changed_seq = item.seq
        self.last_seq = recorded[-1].seq


def lineage(runtime: Runtime) -> Iterator[Runtime]:
    """The turn and those above it, whose caps it shares."""
    at: Runtime | None = runtime
    while at is not None:
        yield at
        at = at.budget.parent


def time_left(runtime: Runtime) -> TimeLeft | None:
    """The shortest time that any cap leaves, here or above; None when none is limited."""
    lefts = [left for each in lineage(runtime) if (left := each.state.ledger.time_left(each.limits))]
    return min(lefts, key=lambda left: left.time_s, default=None)

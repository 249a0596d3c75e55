"""What a journal says now: the fold that the loop and the session decide from.

`State.apply` takes each event once, in order, and shows it only to the folds that its kind concerns.
`load_state` gives the same state from a journal while reading only light events and what came after the last
reply, so a long session opens quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec

from mainspring.approvals.answers import Consenting, Requests
from mainspring.errors import ELSEWHERE, ContextOverflow, MediaRefused
from mainspring.events import (
    EFFECT_SOURCE,
    KEEPS_CALLS_OPEN,
    OUTPUT_SOURCE,
    RESUMED_SOURCE,
    STORED,
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    ChildEnded,
    ChildStarted,
    Compacted,
    Effort,
    EffortChosen,
    EngineChosen,
    Event,
    FilesChanged,
    GoalSet,
    Limits,
    ModeChosen,
    ModelChosen,
    NoteAdded,
    OnQuota,
    PromptSet,
    Recorded,
    RequestFailed,
    SamplingChosen,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    SuiteEnded,
    SuiteStarted,
    TurnEnded,
    TurnStarted,
    Undone,
    Usage,
    UserSaid,
    WaitEnded,
)
from mainspring.events.counts import rounded_usd
from mainspring.folds.children import Children
from mainspring.folds.jobs import Jobs, JobsTold
from mainspring.folds.ledger import ENGINE, STEP, Counted, Ledger
from mainspring.folds.processes import Custodial, Processes
from mainspring.folds.task import Task, Telling
from mainspring.folds.waits import Awaited, Waits
from mainspring.journal import JournalReader, events_in
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault

OVERFLOW = ContextOverflow.__name__
MEDIA_REFUSED = MediaRefused.__name__

_ENGINE_SPEND = f"{ENGINE}:"
_STEP_SPEND = f"{STEP}:"
_ELSEWHERE = frozenset(kind.__name__ for kind in ELSEWHERE)

_Call = AssistantSaid | ApprovalAsked | ApprovalGiven | CallStarted | CallEnded
_Turn = UserSaid | TurnStarted | TurnEnded | Undone
_Room = RequestFailed | Compacted
_Own = ChildStarted | ChildEnded | TurnStarted | JobsTold
_Tested = FilesChanged | SuiteStarted | SuiteEnded
_NAMING = (SessionStarted, ModelChosen, RequestFailed, EngineChosen, NoteAdded)
"""Events with names or paths that are compared with what is there."""

_Setting = SessionStarted | PromptSet | ModelChosen | EffortChosen | ModeChosen | SessionResumed | NoteAdded


class OpenCall(msgspec.Struct, frozen=True):
    """A call that the last reply asked for and that has no result yet. A call is lost when the process in
    which it had started is gone: nobody saw its result."""

    asked: CallAsked
    is_truncated: bool = False
    question: ApprovalAsked | None = None
    answer: ApprovalGiven | None = None
    is_started: bool = False
    is_lost: bool = False


class State:
    """With a vault, names and paths are told as they are; on record they have no secrets."""

    def __init__(self, vault: Vault | None = None) -> None:
        self._vault = vault
        self.session = ""
        self.workspace = Path()
        self.model = ""
        self.fallbacks: tuple[str, ...] = ()
        self.failed_models: dict[str, RequestFailed] = {}
        self.effort: Effort | None = None
        self.sampling = SamplingChosen()
        self.mode = self.level = ""
        self.prompt = PromptSet(system="")
        self.ledger = Ledger()
        self.step = self.turn = 0
        self.is_turn_open = False
        self.is_turn_wanted = False
        self.is_said_late = False
        """Whether something was said since the turn began, or since its last reply."""
        self._said_seq = 0
        self.limits = Limits()
        self.turn_steps = self.turn_cutoffs = 0
        self.turn_usage = Usage()
        self.turn_cost_usd = 0.0
        self.output_schema: dict[str, Any] | None = None
        self.wanted_schema: dict[str, Any] | None = None
        """What the next turn must answer with: the last thing said wants it, and no turn has given it."""
        self.is_output_corrected = False
        """Whether the model was told in this turn that its answer does not fit."""
        self.is_effect_asked = False
        """Whether the model has made no call in this turn, and was not asked about that."""
        self.prompt_size = 0
        self.note_sources: set[str] = set()
        self.compacted_tokens = 0
        self.is_overflowing = self.is_shrunk = self.was_stopped = False
        self.last_ending: TurnEnded | None = None
        self.last_reply = AssistantSaid(step=0)
        self.are_files_changed = False
        """Whether files changed since the last reply and the last run of tests."""
        self.requests = Requests()
        self.processes = Processes()
        self.waits = Waits()
        self.children, self.jobs = Children(), Jobs()
        self.task = Task()
        self.engine = EngineChosen(engine="")
        self.has_goal = False
        self.conversation_usage = Usage()
        self._calls: dict[str, OpenCall] = {}
        self._last_us = 0
        self.inherited_seq = 0

    @property
    def open_calls(self) -> tuple[OpenCall, ...]:
        return tuple(self._calls.values())

    def open_call(self, call: str) -> OpenCall | None:
        return self._calls.get(call)

    def apply(self, recorded: Recorded) -> None:
        event = recorded.event
        if self._vault and isinstance(event, _NAMING):
            event = expanded(event, self._vault)
        if isinstance(event, SessionResumed):  # time counts while a process is at work, not while it is off
            self._last_us = recorded.time_us
        self.pass_time(recorded.time_us)
        for concern in _CONCERNS.get(type(event), ()):
            concern(self, recorded, event)

    def _apply_wait(self, recorded: Recorded, event: Awaited) -> None:
        if isinstance(event, WaitEnded):
            known = self.waits.get(event.wait)
            if known and any(isinstance(item, OnQuota) for item in known.started.conditions):
                self.failed_models = {}
        self.waits.apply(recorded)

    def _apply_engine(self, recorded: Recorded, event: EngineChosen) -> None:
        # The conversation of an outside agent goes on in the session that it began in, and not in a fork.
        is_ours = recorded.seq > self.inherited_seq
        if event.conversation != self.engine.conversation:
            self.conversation_usage = Usage()
        self.engine = event if is_ours else msgspec.structs.replace(event, conversation="")

    def _apply_tested(self, _recorded: Recorded, event: _Tested) -> None:
        self.are_files_changed = isinstance(event, FilesChanged)

    def _apply_goal(self, _recorded: Recorded, _event: GoalSet) -> None:
        self.has_goal = True

    def _apply_sampling(self, _recorded: Recorded, event: SamplingChosen) -> None:
        self.sampling = event

    def pass_time(self, time_us: int) -> None:
        if self.is_turn_open and self._last_us:
            self.ledger.worked_us += time_us - self._last_us
        self._last_us = time_us

    def _apply_requests(self, _recorded: Recorded, event: Consenting) -> None:
        self.requests = self.requests.after(event)

    def _apply_task(self, _recorded: Recorded, event: Telling) -> None:
        self.task = self.task.after(event)

    def _apply_ledger(self, recorded: Recorded, event: Counted) -> None:
        if recorded.seq > self.inherited_seq:  # a fork does not pay for its parent
            self.ledger.apply(event, recorded.seq)

    def _apply_own(self, recorded: Recorded, event: _Own) -> None:
        if recorded.seq > self.inherited_seq:  # those of what it was forked from are not its own
            self.jobs = self.jobs.after(event) if isinstance(event, JobsTold) else self.jobs
            self.children = self.children if isinstance(event, JobsTold) else self.children.after(event)

    def _apply_processes(self, recorded: Recorded, _event: Custodial) -> None:
        self.processes.apply(recorded)

    def _apply_setting(self, _recorded: Recorded, event: _Setting) -> None:
        match event:
            case SessionStarted():
                self.session, self.workspace = event.session, Path(event.workspace)
                self.inherited_seq = event.parent_seq
            case PromptSet():
                self.prompt = event
                self.prompt_size = (
                    len(event.system) + len(event.context) + len(msgspec.json.encode(event.tools))
                )
            case ModelChosen():
                self.model, self.fallbacks = event.model, event.fallbacks
            case EffortChosen():
                self.effort = event.effort
            case ModeChosen():
                self.mode, self.level = event.mode, event.level
            case SessionResumed():
                self.limits = event.limits or self.limits
                for name, call in self._calls.items():
                    self._calls[name] = msgspec.structs.replace(call, is_lost=call.is_started)
            case NoteAdded():
                self._apply_note(event.source)

    def _apply_note(self, source: str) -> None:
        if source == "mainspring":
            self.turn_cutoffs += 1
        elif source in (EFFECT_SOURCE, OUTPUT_SOURCE):
            self.is_effect_asked = True
            self.is_output_corrected = self.is_output_corrected or source == OUTPUT_SOURCE
        else:
            self.note_sources.add(source)
            self.is_said_late = self.is_said_late or source not in ("user", RESUMED_SOURCE)

    def _apply_room(self, _recorded: Recorded, event: _Room) -> None:
        """Overflowing: a step's request was too large. Shrunk: history was cut since, without a reply."""
        if isinstance(event, Compacted):
            self.engine = msgspec.structs.replace(self.engine, conversation="")
            self.compacted_tokens = event.tokens_after
            self.note_sources.clear()
            self.is_shrunk = self.is_shrunk or self.is_overflowing
            self.is_overflowing = False
        elif event.step and event.error == OVERFLOW:
            self.is_overflowing = True
        elif event.error == MEDIA_REFUSED:
            return  # the same model is asked again, without it
        elif event.retry_in_s is None and (event.step or self._is_down(event)):
            self.failed_models[event.model or self.model] = event

    def _is_down(self, failed: RequestFailed) -> bool:
        """Whether a model of the line failed at a summary in a way that a step would as well."""
        return failed.error in _ELSEWHERE and failed.model in (self.model, *self.fallbacks)

    def _apply_reserved(self, recorded: Recorded, event: SpendReserved) -> None:
        if recorded.seq > self.inherited_seq:
            self.ledger.hold(event)
        if event.source == STEP and not event.child:
            self.step += 1
            self.turn_steps += 1

    def _apply_settled(self, recorded: Recorded, event: SpendSettled) -> None:
        if recorded.seq > self.inherited_seq:
            self.ledger.settle(event)
        self.turn_steps -= event.is_failed and event.spend.startswith(_STEP_SPEND)
        self.turn_usage = self.turn_usage.plus(event.usage)
        self.turn_cost_usd = rounded_usd(self.turn_cost_usd + event.usd)
        if event.spend.startswith(_ENGINE_SPEND):
            self.conversation_usage = self.conversation_usage.plus(event.usage)

    def _apply_turn(self, recorded: Recorded, event: _Turn) -> None:
        match event:
            case UserSaid():
                self._said_seq = recorded.seq
                self.is_turn_wanted = self.is_said_late = True
                if event.output_schema or not self.is_turn_open:
                    self.wanted_schema = event.output_schema
                self.failed_models = {}
            case TurnStarted():
                self.is_said_late = False
                self.turn, self.limits = event.turn, event.limits
                self.is_turn_open = self.is_turn_wanted = True
                self.turn_steps = self.turn_cutoffs = 0
                self.turn_usage, self.turn_cost_usd = Usage(), 0.0
                self.output_schema = event.output_schema
                self.is_output_corrected = self.is_effect_asked = False
                if not self._is_held_up:
                    self.failed_models = {}
                self.is_overflowing = self.is_shrunk = False
            case TurnEnded():
                self.is_turn_open = False
                self.is_turn_wanted = event.ending == "done" and self.is_said_late
                self.last_ending = event
                self.was_stopped = event.ending == "interrupted"
                self.wanted_schema = None if event.ending == "done" else self.wanted_schema
                if event.ending not in KEEPS_CALLS_OPEN:
                    self._calls = {}
            case Undone(scope="files"):
                pass
            case Undone():
                self.is_turn_open = self.is_turn_wanted = self.is_said_late = self.was_stopped = False
                self.wanted_schema = None
                self.compacted_tokens = 0
                self.note_sources.clear()
                self.engine = msgspec.structs.replace(self.engine, conversation="")
                self._calls = {}

    @property
    def _is_held_up(self) -> bool:
        """Whether the last turn ended because every model has to be waited for."""
        return self.last_ending is not None and self.last_ending.ending == "waiting"

    def _apply_call(self, _recorded: Recorded, event: _Call) -> None:
        if isinstance(event, AssistantSaid):
            self.last_reply = event
            self.are_files_changed = False
            self.is_said_late = bool(event.heard_seq) and self._said_seq > event.heard_seq
            self.failed_models = {}
            self.is_overflowing = self.is_shrunk = False
            is_cut = event.stop == "length"
            self._calls = {asked.call: OpenCall(asked=asked, is_truncated=is_cut) for asked in event.calls}
            return
        call = self._calls.get(event.call)
        if call is None:
            return
        replace = msgspec.structs.replace
        match event:
            case ApprovalAsked():
                self._calls[event.call] = replace(call, question=event, answer=None)
            case ApprovalGiven():
                self._calls[event.call] = replace(call, answer=event)
            case CallStarted():
                self._calls[event.call] = replace(call, is_started=True)
            case CallEnded():
                del self._calls[event.call]


def _concerns() -> dict[type[Event], tuple[Callable[[State, Recorded, Any], None], ...]]:
    folds: tuple[tuple[Any, Callable[[State, Recorded, Any], None]], ...] = (
        (Consenting, State._apply_requests),
        (Telling, State._apply_task),
        (Counted, State._apply_ledger),
        (_Own, State._apply_own),
        (Custodial, State._apply_processes),
        (Awaited, State._apply_wait),
        (SpendReserved, State._apply_reserved),
        (SpendSettled, State._apply_settled),
        (_Call, State._apply_call),
        (_Turn, State._apply_turn),
        (_Room, State._apply_room),
        (_Tested, State._apply_tested),
        (_Setting, State._apply_setting),
        (EngineChosen, State._apply_engine),
        (GoalSet, State._apply_goal),
        (SamplingChosen, State._apply_sampling),
    )
    return {
        kind: concerned
        for kind in STORED
        if (concerned := tuple(fold for union, fold in folds if kind in (get_args(union) or (union,))))
    }


_CONCERNS = _concerns()
"""Which folds a kind of event concerns; a fold sees nothing but the kinds that it is typed for."""

_LIGHT = tuple(kind.__name__ for kind in _CONCERNS if kind not in get_args(_Call | _Tested))


async def load_state(journal: JournalReader, vault: Vault | None = None) -> State:
    """Folds a journal, leaving the bodies of old replies and results unread."""
    state = State(vault)
    reply = await journal.last("AssistantSaid")
    boundary = reply.seq - 1 if reply else 0
    async for recorded in events_in(journal, until=boundary, kinds=_LIGHT, limit=5000):
        if isinstance(recorded.event, SessionResumed):
            for last in await journal.read(after=recorded.seq - 2, until=recorded.seq - 1):
                state.pass_time(last.time_us)  # the process before was at work until here
        state.apply(recorded)
    for scope, began in state.ledger.began().items():
        after = max(began, state.inherited_seq)
        state.ledger.count_calls(scope, await journal.count("CallStarted", after=after, until=boundary))
    async for recorded in events_in(journal, after=boundary, limit=5000):
        state.apply(recorded)
    return state

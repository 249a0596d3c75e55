"""Where a goal stands, folded from its session's journal: the loop of a goal decides from this alone."""

from __future__ import annotations

import msgspec

from mainspring.catalog import Sessions, reading
from mainspring.context.history import is_undone, live, read_all, undone_ranges
from mainspring.errors import UsageError
from mainspring.events import (
    AssistantSaid,
    AttemptEnded,
    AttemptsEnded,
    AttemptStarted,
    CheckEnded,
    EngineEnded,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationEnded,
    IterationStarted,
    OnPid,
    OnProcess,
    PlanSet,
    Recorded,
    RequestFailed,
    TurnEnded,
    TurnStarted,
    WaitEnded,
    WaitStarted,
    WorkFinished,
)
from mainspring.events.counts import rounded_usd
from mainspring.journal import JournalReader, events_in
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault

KINDS: tuple[type[Event], ...] = (
    GoalSet,
    IterationStarted,
    IterationEnded,
    GoalPaused,
    GoalEnded,
    CheckEnded,
    TurnStarted,
    EngineEnded,
    TurnEnded,
    RequestFailed,
    WaitStarted,
    WaitEnded,
    PlanSet,
    WorkFinished,
    AttemptStarted,
    AttemptEnded,
    AttemptsEnded,
)
_NAMES = tuple(kind.__name__ for kind in KINDS)


class Iteration(msgspec.Struct, kw_only=True):
    """The iteration at work: `ending` is how its last turn ended, None while one runs or none began."""

    number: int
    started_us: int
    started_seq: int
    ending: TurnEnded | None = None
    ended_seq: int = 0
    failure: RequestFailed | None = None
    exit_code: int | None = None
    finished: WorkFinished | None = None
    is_plan_new: bool = False
    down_since_us: int = 0
    turns: int = 0
    checks: dict[tuple[str, str], CheckEnded] = {}
    attempts: dict[int, tuple[TurnEnded | None, WorkFinished | None]] = {}
    cost_usd: float = 0.0
    tokens: int = 0


class Goal(msgspec.Struct, kw_only=True):
    """`refusals`, `failures` and `idle` count the iterations in a row, up to the last. `awaited` are the
    background processes that were waited for at some time. With a vault, what the
    goal names (commands, files, metrics) is told as it is, for whoever runs and compares it; its text is told
    as recorded. `left` are the processes that outside engines left running, in all iterations, each with the
    time at which it was seen; those that were waited for have ended."""

    vault: Vault | None = None
    seq: int = 0
    set_seq: int = 0
    origin: GoalSet | None = None
    latest: GoalSet | None = None
    started_us: int = 0
    changes: int = 0
    iterations: int = 0
    refusals: int = 0
    failures: int = 0
    idle: int = 0
    waits: int = 0
    awaited: frozenset[str] = frozenset()
    current: Iteration | None = None
    last: IterationEnded | None = None
    last_seq: int = 0
    failing: tuple[CheckEnded, ...] = ()
    waited: WaitStarted | None = None
    woke: WaitEnded | None = None
    left: dict[int, int] = {}
    plan: PlanSet | None = None
    paused: GoalPaused | None = None
    ended: GoalEnded | None = None

    @property
    def first(self) -> GoalSet:
        """The goal as it was given at first."""
        return self.origin or _none()

    @property
    def now(self) -> GoalSet:
        return self.latest or _none()

    async def catch_up(self, journal: JournalReader) -> None:
        """Takes in what was recorded since."""
        async for recorded in events_in(journal, kinds=_NAMES, after=self.seq):
            self.apply(recorded)

    def apply(self, recorded: Recorded) -> None:
        self.seq = recorded.seq
        match recorded.event:
            case GoalSet() as event:
                self._apply_goal(event, recorded.time_us)
                self.set_seq = recorded.seq
            case IterationStarted() as event:
                self.current = Iteration(
                    number=event.iteration, started_us=recorded.time_us, started_seq=recorded.seq
                )
                self.woke = self.paused = None
            case IterationEnded() as event:
                self._apply_end(event)
            case GoalPaused() as event:
                self.paused = event
            case GoalEnded() as event:
                self.ended = event
            case WaitStarted() as event:
                if not event.call:
                    self.waits += 1
                    self.waited = event
                handles = (item.handle for item in event.conditions if isinstance(item, OnProcess))
                self.awaited = self.awaited.union(handles)
            case WaitEnded() as event:
                self.woke = event
                self._apply_wake(event)
            case _:
                self._apply_within(recorded)

    def _apply_goal(self, event: GoalSet, time_us: int) -> None:
        if self.vault is not None:
            text, source = event.text, event.source
            event = msgspec.structs.replace(expanded(event, self.vault), text=text, source=source)
        if self.origin is None:
            self.origin, self.started_us = event, time_us
        elif self.latest is not None and self.latest.text != event.text:
            self.changes += 1
        self.latest = event
        if self.ended or self.paused:
            self.refusals = self.failures = self.idle = 0
        self.ended = self.paused = None

    def _apply_wake(self, event: WaitEnded) -> None:
        waited, self.waited = self.waited, None
        if waited and waited.wait == event.wait and waited.needs == "all" and event.cause == "met":
            for condition in waited.conditions:
                if isinstance(condition, OnPid):
                    self.left.pop(condition.pid, None)

    def _apply_end(self, event: IterationEnded) -> None:
        self.iterations = max(self.iterations, event.iteration)
        self.last = event
        self.last_seq = self.current.started_seq if self.current else self.last_seq
        checks = self.current.checks.values() if self.current else ()
        self.failing = tuple(check for check in checks if not check.passed)
        self.current = self.woke = None
        self.refusals = self.refusals + 1 if event.outcome == "refused" else 0
        self.failures = self.failures + 1 if event.outcome == "failed" else 0
        is_idle = not event.changed and not event.is_waiting and event.outcome == "continued"
        self.idle = self.idle + 1 if is_idle else 0

    def _apply_within(self, recorded: Recorded) -> None:
        current = self.current
        if current is None:
            return
        match recorded.event:
            case TurnStarted():
                current.ending = current.failure = current.exit_code = None
                current.turns += 1
                self.paused = None
            case TurnEnded() as event:
                current.ending, current.ended_seq = event, recorded.seq
                current.cost_usd = rounded_usd(current.cost_usd + event.cost_usd)
                current.tokens += event.usage.total_tokens
                if event.steps > 1 or not current.down_since_us:
                    current.down_since_us = recorded.time_us
            case EngineEnded() as event:
                current.exit_code = event.exit_code
                self.left |= dict.fromkeys(event.left_running, recorded.time_us)
            case RequestFailed() as event if event.retry_in_s is None:
                current.failure = event
            case WorkFinished() as event:
                current.finished = event
            case PlanSet() as event:
                is_same = self.plan is not None and self.plan.items == event.items
                self.plan, current.is_plan_new = event, current.is_plan_new or not is_same
            case CheckEnded() as event:
                current.checks[event.kind, event.check] = event
            case event:
                _apply_attempt(current, event)


def _apply_attempt(current: Iteration, event: Event) -> None:
    """What one attempt said does not count for another."""
    match event:
        case AttemptStarted():
            current.finished = None
        case AttemptEnded():
            current.attempts[event.attempt] = (current.ending, current.finished)
        case AttemptsEnded():
            now = (current.ending, current.finished)
            current.ending, current.finished = current.attempts.get(event.kept, now)
        case _:
            pass


def _none() -> GoalSet:
    raise UsageError("This session has no goal.", remedy="mainspring goal list shows those that have one.")


async def load_goal(sessions: Sessions, session: str, vault: Vault | None = None) -> Goal:
    """Where a goal stands, read without owning its journal."""
    goal = Goal(vault=vault)
    async with reading(sessions, session) as reader:
        await goal.catch_up(reader)
    return goal


async def last_message(journal: JournalReader, after: int) -> str:
    """The text of the last message since an event that was not taken back."""
    said = await journal.last("AssistantSaid")
    if said is None or said.seq <= after or not isinstance(said.event, AssistantSaid):
        return ""
    dead = undone_ranges(await read_all(journal, kinds=("Undone",)))
    if not is_undone(said.seq, dead):
        return said.event.text
    standing = list(live(await read_all(journal, kinds=("AssistantSaid",), after=after), dead))
    last = standing[-1].event if standing else None
    return last.text if isinstance(last, AssistantSaid) else ""

"""The iterations of a goal and where its time went, folded from the journal."""

from __future__ import annotations

from collections import Counter, deque

import msgspec

from mainspring.events import (
    ArtifactChange,
    ArtifactsChanged,
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    CheckEnded,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationEnded,
    IterationStarted,
    Recorded,
    SessionResumed,
    TurnEnded,
    TurnStarted,
    WaitEnded,
    WaitStarted,
)
from mainspring.evidence.artifacts import command_of
from mainspring.report.facts import Clock, CommandFacts, IterationFacts

KINDS: tuple[type[Event], ...] = (
    AssistantSaid,
    CallEnded,
    WaitStarted,
    WaitEnded,
    GoalSet,
    GoalEnded,
    GoalPaused,
    SessionResumed,
    IterationStarted,
    IterationEnded,
    ArtifactsChanged,
    TurnStarted,
    TurnEnded,
    CheckEnded,
)
LISTED = 500
IN_FULL = 20
TROUBLED_IN_FULL = 10
MAX_SAID = 4000
MAX_COMMAND = 300
_COMMANDS = 20
_FAILED_COMMANDS = 10
_FILES = 20
_CHECKS = 10


class _Result(msgspec.Struct, frozen=True, gc=False):
    """How a call ended; what it was is read from its arguments only when it is shown."""

    seq: int
    call: str
    asked: CallAsked | None
    outcome: str
    exit_code: int | None
    duration_s: float
    full: Blob | None


class _Open(msgspec.Struct, kw_only=True):
    """An iteration as far as it was read."""

    facts: IterationFacts
    said: str = ""
    said_seq: int = 0
    newest: deque[_Result]
    failed: deque[_Result]
    files: dict[str, ArtifactChange]
    files_total: int = 0
    calls: int = 0
    calls_failed: int = 0
    turns: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    seconds: dict[str, float]
    waits: int = 0
    failed_checks: list[str]
    ended: IterationEnded | None = None
    ended_seq: int = 0


class Iterations:
    """The fold. What happens between two iterations belongs to the one before."""

    def __init__(self) -> None:
        self._known: dict[int, _Open] = {}
        self._current: _Open | None = None
        self._asked: dict[str, CallAsked] = {}
        self._waits: dict[str, str] = {}
        self._seconds: dict[str, float] = {"working": 0.0, "waiting": 0.0, "between": 0.0, "away": 0.0}
        self._started_us = self._last_us = 0
        self._is_over = False
        self._is_at_work = False
        self._results: dict[str, _Result] = {}
        self.last_said = ""
        self.last_said_seq = 0

    @property
    def number(self) -> int:
        """The iteration that what is read now belongs to."""
        return self._current.facts.number if self._current else 0

    def result(self, call: str) -> CommandFacts | None:
        """How a call ended; None when that is not on record."""
        found = self._results.get(call)
        return _command(found) if found else None

    @property
    def total(self) -> int:
        return len(self._known)

    @property
    def outcomes(self) -> tuple[tuple[str, int], ...]:
        counts = Counter(each.ended.outcome if each.ended else "not over" for each in self._known.values())
        return tuple(counts.items())

    def apply(self, recorded: Recorded) -> None:
        self._pass_time(recorded)
        match recorded.event:
            case AssistantSaid() as event:
                self._say(event, recorded.seq)
            case CallEnded() as event:
                self._end_call(event, recorded.seq)
            case WaitStarted() as event:
                if event.wait not in self._waits and self._current:
                    self._current.waits += 1
                self._waits[event.wait] = event.call
            case WaitEnded() as event:
                self._waits.pop(event.wait, None)
            case GoalSet():
                self._started_us = self._started_us or recorded.time_us
                self._is_over = False
            case GoalEnded() | GoalPaused():
                self._is_over, self._waits = True, {}
            case SessionResumed():
                self._is_over = False
            case _:
                self._apply_iteration(recorded)

    def clock(self, until_us: int) -> Clock:
        """Where the time went, up to now when somebody is still at work."""
        if not self._is_over:
            self._spend(until_us, self._use())
        else:
            until_us = self._last_us
        return Clock(
            started_us=self._started_us,
            until_us=until_us,
            **{f"{use}_s": round(seconds, 3) for use, seconds in self._seconds.items()},
        )

    def facts(self) -> tuple[IterationFacts, ...]:
        """The newest iterations, of which some in full: the last, the first, and those with trouble."""
        numbers = sorted(self._known)
        troubled = [
            number for number in numbers if (ended := self._known[number].ended) and ended.outcome in _TROUBLE
        ]
        full = {*numbers[-IN_FULL:], *troubled[-TROUBLED_IN_FULL:], *numbers[:1]}
        listed = numbers[-LISTED:]
        if numbers[:1] and numbers[0] not in listed:
            listed = [numbers[0], *listed[1:]]
        return tuple(_facts(self._known[number], is_full=number in full) for number in listed)

    def _pass_time(self, recorded: Recorded) -> None:
        if not self._started_us:
            self._last_us = recorded.time_us
            return
        if isinstance(recorded.event, SessionResumed):
            self._spend(recorded.time_us, "waiting" if self._waits else "away")
        elif not self._is_over:
            self._spend(recorded.time_us, self._use())

    def _use(self) -> str:
        if self._waits:
            return "waiting"
        return "working" if self._is_at_work else "between"

    def _spend(self, until_us: int, use: str) -> None:
        seconds = max(until_us - self._last_us, 0) / 1e6
        self._last_us = max(until_us, self._last_us)
        self._seconds[use] += seconds
        if self._current is not None:
            self._current.seconds[use] = self._current.seconds.get(use, 0.0) + seconds

    def _apply_iteration(self, recorded: Recorded) -> None:
        match recorded.event:
            case IterationStarted() as event:
                self._begin(event, recorded)
            case IterationEnded() as event:
                current = self._known.get(event.iteration)
                if current is not None:
                    current.ended, current.ended_seq = event, recorded.seq
                self._is_at_work = False
                self._asked.clear()
            case ArtifactsChanged() as event if event.iteration in self._known:
                _take_files(self._known[event.iteration], event)
            case _ if self._current is not None:
                _take_turn(self._current, recorded)
            case _:
                pass

    def _begin(self, event: IterationStarted, recorded: Recorded) -> None:
        facts = IterationFacts(number=event.iteration, seq=recorded.seq, started_us=recorded.time_us)
        self._current = self._known[event.iteration] = _Open(
            facts=facts,
            newest=deque(maxlen=_COMMANDS),
            failed=deque(maxlen=_FAILED_COMMANDS),
            files={},
            seconds={},
            failed_checks=[],
        )
        self._is_at_work = True

    def _say(self, event: AssistantSaid, seq: int) -> None:
        for call in event.calls:
            self._asked[call.call] = call
        if text := event.text.strip():
            self.last_said, self.last_said_seq = text, seq
            if self._current is not None:
                self._current.said, self._current.said_seq = text, seq

    def _end_call(self, event: CallEnded, seq: int) -> None:
        if self._waits:
            self._waits = {wait: call for wait, call in self._waits.items() if call != event.call}
        asked = self._asked.pop(event.call, None)
        result = self._results[event.call] = _Result(
            seq, event.call, asked, event.outcome, event.exit_code, event.duration_s, event.full
        )
        if self._current is None:
            return
        self._current.calls += 1
        if event.is_error or event.exit_code:
            self._current.calls_failed += 1
            self._current.failed.append(result)
        self._current.newest.append(result)


def _command(result: _Result) -> CommandFacts:
    asked = result.asked
    return CommandFacts(
        seq=result.seq,
        call=result.call,
        tool=asked.name if asked else "",
        command=command_of(asked)[:MAX_COMMAND] if asked else "",
        outcome=result.outcome,
        exit_code=result.exit_code,
        duration_s=result.duration_s,
        sha256=result.full.sha256 if result.full else "",
    )


_TROUBLE = ("refused", "failed")


def _take_turn(current: _Open, recorded: Recorded) -> None:
    match recorded.event:
        case TurnStarted():
            current.turns += 1
        case TurnEnded() as event:
            current.cost_usd += event.cost_usd
            current.tokens += event.usage.total_tokens
        case CheckEnded() as event if not event.passed and len(current.failed_checks) < _CHECKS:
            current.failed_checks.append(f"{event.check}: {event.detail}".removesuffix(": "))
        case _:
            pass


def _take_files(current: _Open, event: ArtifactsChanged) -> None:
    current.files_total += event.new + event.modified + event.deleted + event.renamed
    for change in event.changes:
        if len(current.files) < _FILES:
            current.files[change.path] = change


def _facts(read: _Open, *, is_full: bool) -> IterationFacts:
    ended = read.ended
    brief = msgspec.structs.replace(
        read.facts,
        ended_seq=read.ended_seq,
        outcome=ended.outcome if ended else "",
        detail=ended.detail if ended else "",
        changed=ended.changed if ended else (),
        exit_code=ended.exit_code if ended else None,
        files_total=read.files_total,
        calls_total=read.calls,
        calls_failed=read.calls_failed,
        turns=read.turns,
        cost_usd=read.cost_usd,
        tokens=read.tokens,
        working_s=round(read.seconds.get("working", 0.0), 3),
        waiting_s=round(read.seconds.get("waiting", 0.0), 3),
        away_s=round(read.seconds.get("away", 0.0), 3),
        waits=read.waits,
        failed_checks=tuple(read.failed_checks),
    )
    if not is_full:
        return brief
    commands = {each.seq: each for each in (*read.failed, *read.newest)}
    return msgspec.structs.replace(
        brief,
        said=read.said[-MAX_SAID:],
        said_seq=read.said_seq,
        is_said_cut=len(read.said) > MAX_SAID,
        files=tuple(read.files.values()),
        commands=tuple(_command(commands[seq]) for seq in sorted(commands)),
    )

"""The iterations of a goal and where its time went, folded from the journal."""

from __future__ import annotations

from collections import Counter, deque
from typing import TypeVar

import msgspec

from mainspring.events import (
    ArtifactChange,
    ArtifactsChanged,
    AssistantSaid,
    CallAsked,
    CallEnded,
    CheckEnded,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationEnded,
    IterationStarted,
    Recorded,
    SessionResumed,
    SpendReserved,
    SpendSettled,
    TurnStarted,
    WaitEnded,
    WaitStarted,
)
from mainspring.evidence.artifacts import command_of
from mainspring.report.facts import Clock, CommandFacts, IterationFacts, ReportFold

LISTED = 500
IN_FULL = 20
TROUBLED_IN_FULL = 10
MAX_SAID = 4000
MAX_COMMAND = 300
_COMMANDS = 20
_FAILED_COMMANDS = 10
_FILES = 20
_CHECKS = 10
_Counted = TypeVar("_Counted", Clock, IterationFacts)
_TROUBLE = ("refused", "failed")


class _Iteration(msgspec.Struct):
    """An iteration as far as it was read; what is not among its facts is only shown in full."""

    facts: IterationFacts
    said: str
    newest: deque[CommandFacts]
    failed: deque[CommandFacts]
    files: dict[str, ArtifactChange]


class Iterations(ReportFold):
    """The fold. What happens between two iterations belongs to the one before."""

    def __init__(self) -> None:
        self._known: dict[int, _Iteration] = {}
        self._current: _Iteration | None = None
        self._asked: dict[str, CallAsked] = {}
        self._waits: dict[str, str] = {}
        self._held: dict[str, tuple[IterationFacts, SpendReserved]] = {}
        self._clock = Clock()
        self._last_us = 0
        self._is_over = False
        self._is_at_work = False
        self._results: dict[str, CommandFacts] = {}
        self.last_said = ""
        self.last_said_seq = 0
        self.handlers = {
            AssistantSaid: self._say,
            CallEnded: self._end_call,
            WaitStarted: self._start_wait,
            WaitEnded: lambda event, _: self._waits.pop(event.wait, None),
            GoalSet: self._set_goal,
            GoalEnded: self._close,
            GoalPaused: self._close,
            SessionResumed: self._resume,
            IterationStarted: self._begin,
            IterationEnded: self._end,
            ArtifactsChanged: self._take_files,
            TurnStarted: self._start_turn,
            SpendReserved: self._reserve,
            SpendSettled: self._settle,
            CheckEnded: self._check,
        }

    @property
    def number(self) -> int:
        """The iteration that what is read now belongs to."""
        return self._current.facts.number if self._current else 0

    def result(self, call: str) -> CommandFacts | None:
        """How a call ended; None when that is not on record."""
        return self._results.get(call)

    @property
    def total(self) -> int:
        return len(self._known)

    @property
    def outcomes(self) -> tuple[tuple[str, int], ...]:
        counts = Counter(each.facts.outcome or "not over" for each in self._known.values())
        return tuple(counts.items())

    def ended(self) -> dict[int, int]:
        """The event with which each iteration ended."""
        known = self._known.items()
        return {number: each.facts.ended_seq for number, each in known if each.facts.ended_seq}

    def apply(self, recorded: Recorded) -> None:
        self._pass_time(recorded)
        super().apply(recorded)

    def clock(self, until_us: int) -> Clock:
        """Where the time went, up to now when somebody is still at work."""
        if not self._is_over:
            self._spend(until_us, self._use())
        else:
            until_us = self._last_us
        return _rounded(msgspec.structs.replace(self._clock, until_us=until_us))

    def facts(self) -> tuple[IterationFacts, ...]:
        """The newest iterations, of which some in full: the last, the first, and those with trouble."""
        numbers = sorted(self._known)
        troubled = [number for number in numbers if self._known[number].facts.outcome in _TROUBLE]
        full = {*numbers[-IN_FULL:], *troubled[-TROUBLED_IN_FULL:], *numbers[:1]}
        listed = numbers[-LISTED:]
        if numbers[:1] and numbers[0] not in listed:
            listed = [numbers[0], *listed[1:]]
        return tuple(_facts(self._known[number], is_full=number in full) for number in listed)

    def _pass_time(self, recorded: Recorded) -> None:
        if not self._clock.started_us:
            self._last_us = recorded.time_us
        elif isinstance(recorded.event, SessionResumed):
            self._spend(recorded.time_us, "waiting_s" if self._waits else "away_s")
        elif not self._is_over:
            self._spend(recorded.time_us, self._use())

    def _use(self) -> str:
        if self._waits:
            return "waiting_s"
        return "working_s" if self._is_at_work else "between_s"

    def _spend(self, until_us: int, use: str) -> None:
        seconds = max(until_us - self._last_us, 0) / 1e6
        self._last_us = max(until_us, self._last_us)
        for clock in (self._clock, self._current.facts if self._current else None):
            if clock is not None and use in clock.__struct_fields__:
                setattr(clock, use, getattr(clock, use) + seconds)

    def _start_wait(self, event: WaitStarted, _: Recorded) -> None:
        if event.wait not in self._waits and self._current:
            self._current.facts.waits += 1
        self._waits[event.wait] = event.call

    def _set_goal(self, _: GoalSet, recorded: Recorded) -> None:
        self._clock.started_us = self._clock.started_us or recorded.time_us
        self._is_over = False

    def _close(self, _: GoalEnded | GoalPaused, __: Recorded) -> None:
        self._is_over, self._waits = True, {}

    def _resume(self, _: SessionResumed, __: Recorded) -> None:
        self._is_over = False

    def _begin(self, event: IterationStarted, recorded: Recorded) -> None:
        facts = IterationFacts(number=event.iteration, seq=recorded.seq, started_us=recorded.time_us)
        newest, failed = deque[CommandFacts](maxlen=_COMMANDS), deque[CommandFacts](maxlen=_FAILED_COMMANDS)
        self._current = self._known[event.iteration] = _Iteration(facts, "", newest, failed, {})
        self._is_at_work = True

    def _end(self, event: IterationEnded, recorded: Recorded) -> None:
        if ended := self._known.get(event.iteration):
            ended.facts.ended_seq = recorded.seq
            for name in ("outcome", "detail", "changed", "exit_code"):
                setattr(ended.facts, name, getattr(event, name))
        self._is_at_work = False
        self._asked.clear()

    def _take_files(self, event: ArtifactsChanged, _: Recorded) -> None:
        if changed := self._known.get(event.iteration):
            changed.facts.files_total += event.new + event.modified + event.deleted + event.renamed
            for change in event.changes:
                if len(changed.files) < _FILES:
                    changed.files[change.path] = change

    def _start_turn(self, _: TurnStarted, __: Recorded) -> None:
        if self._current:
            self._current.facts.turns += 1

    def _reserve(self, event: SpendReserved, _: Recorded) -> None:
        """What is set aside counts as spent until it is settled; a child's stands in its own journal."""
        if self._current and not event.child:
            self._held[event.spend] = self._current.facts, event
            self._current.facts.cost_usd += event.usd
            self._current.facts.tokens += event.tokens

    def _settle(self, event: SpendSettled, _: Recorded) -> None:
        if held := self._held.pop(event.spend, None):
            facts, reserved = held
            facts.cost_usd += event.usd - reserved.usd
            facts.tokens += event.usage.total_tokens - reserved.tokens

    def _check(self, event: CheckEnded, _: Recorded) -> None:
        if self._current and not event.passed and len(self._current.facts.failed_checks) < _CHECKS:
            self._current.facts.failed_checks += (f"{event.check}: {event.detail}".removesuffix(": "),)

    def _say(self, event: AssistantSaid, recorded: Recorded) -> None:
        for call in event.calls:
            self._asked[call.call] = call
        if text := event.text.strip():
            self.last_said, self.last_said_seq = text, recorded.seq
            if self._current is not None:
                self._current.said, self._current.facts.said_seq = text, recorded.seq

    def _end_call(self, event: CallEnded, recorded: Recorded) -> None:
        if self._waits:
            self._waits = {wait: call for wait, call in self._waits.items() if call != event.call}
        asked = self._asked.pop(event.call, None)
        result = self._results[event.call] = CommandFacts(
            seq=recorded.seq,
            call=event.call,
            tool=asked.name if asked else "",
            command=command_of(asked)[:MAX_COMMAND] if asked else "",
            outcome=event.outcome,
            exit_code=event.exit_code,
            duration_s=event.duration_s,
            sha256=event.full.sha256 if event.full else "",
        )
        if self._current is None:
            return
        self._current.facts.calls_total += 1
        if event.is_error or event.exit_code:
            self._current.facts.calls_failed += 1
            self._current.failed.append(result)
        self._current.newest.append(result)


def _rounded(counted: _Counted) -> _Counted:
    names = [name for name in counted.__struct_fields__ if name.endswith("_s")]
    return msgspec.structs.replace(counted, **{name: round(getattr(counted, name), 3) for name in names})


def _facts(read: _Iteration, *, is_full: bool) -> IterationFacts:
    brief = _rounded(read.facts)
    if not is_full:
        return msgspec.structs.replace(brief, said_seq=0)
    commands = {each.seq: each for each in (*read.failed, *read.newest)}
    return msgspec.structs.replace(
        brief,
        said=read.said[-MAX_SAID:],
        is_said_cut=len(read.said) > MAX_SAID,
        files=tuple(read.files.values()),
        commands=tuple(commands[seq] for seq in sorted(commands)),
    )

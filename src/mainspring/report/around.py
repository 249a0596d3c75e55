"""What happened around the work: waits, outages, questions, warnings, processes, crashes; folded."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.approvals import why_asked
from mainspring.documents.lines import as_text
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    BudgetWarned,
    CallEnded,
    Crashed,
    EngineEnded,
    Event,
    GuardTripped,
    MemoryKeptAside,
    ModeChosen,
    ProcessEnded,
    ProcessStarted,
    Recorded,
    RequestFailed,
    RoutingWarned,
    SandboxChosen,
    SessionResumed,
    Undone,
    WaitEnded,
    WaitStarted,
)
from mainspring.goals.fold import Goal
from mainspring.report.facts import (
    Approval,
    Notice,
    Outage,
    ProcessFacts,
    ReportFold,
    Wait,
    fact_of,
)
from mainspring.report.iterations import Iterations
from mainspring.report.result_facts import LeftProcess
from mainspring.waits.describe import duration, joined

MAX_DETAIL = 500
_LAST_LINES = 12


_WARNINGS: dict[type[Event], str] = {
    GuardTripped: "guard",
    BudgetWarned: "budget",
    RoutingWarned: "choice of models",
    MemoryKeptAside: "memory file put aside",
    EngineEnded: "engine",
}
"""The events that are a warning whenever there is a line about them."""


class EventsAround(ReportFold):
    """The fold. Of `goal` and `iterations` it sees what they were before each event."""

    def __init__(self, goal: Goal, iterations: Iterations) -> None:
        self.waits: dict[tuple[str, int], Wait] = {}
        self.outages: dict[str, Outage] = {}
        self.approvals: dict[tuple[str, str], Approval] = {}
        self.notices: list[Notice] = []
        self.crashes: list[Notice] = []
        self.processes: dict[str, ProcessFacts] = {}
        self._left: dict[int, LeftProcess] = {}
        self.rungs: dict[str, None] = {}
        self.mode = ""
        self._goal, self._iterations = goal, iterations
        self._open_waits: dict[str, tuple[str, int]] = {}
        self._calls: dict[str, str] = {}
        self._before_us = 0
        self.handlers = {
            CallEnded: self._end_call,
            WaitStarted: self._start_wait,
            WaitEnded: self._wake,
            RequestFailed: self._fail,
            ApprovalAsked: self._ask,
            ApprovalGiven: self._answer,
            SandboxChosen: lambda event, _: self.rungs.setdefault(event.rung),
            ModeChosen: self._choose_mode,
            ProcessStarted: self._start_process,
            ProcessEnded: lambda event, _: self.processes.pop(event.handle, None),
            SessionResumed: self._resume,
            Crashed: self._crash,
            Undone: lambda event, recorded: self._interrupted(recorded, "taken back", as_text(event)),
            **dict.fromkeys(_WARNINGS, self._warn),
            EngineEnded: self._end_engine,
        }

    def apply(self, recorded: Recorded) -> None:
        super().apply(recorded)
        self._before_us = recorded.time_us

    @property
    def left_running(self) -> tuple[LeftProcess, ...]:
        """What engines left running and lived until the goal ended, or has no recorded end."""
        ended = self._goal.ended
        known = ended.left_running if ended else self._goal.left
        is_ended = ended is not None and ended.ending in ("done", "stopped")
        found = [self._left[pid] for pid in known if pid in self._left]
        return tuple(msgspec.structs.replace(each, is_ended=is_ended) for each in found)

    def _end_engine(self, event: EngineEnded, recorded: Recorded) -> None:
        self._warn(event, recorded)
        number = self._iterations.number
        self._left |= {
            pid: LeftProcess(pid=pid, iteration=number, seq=recorded.seq) for pid in event.left_running
        }

    def _choose_mode(self, event: ModeChosen, _: Recorded) -> None:
        self.mode = f"{event.mode} ({event.level})" if event.level else event.mode

    def _start_process(self, event: ProcessStarted, recorded: Recorded) -> None:
        self.processes[event.handle] = fact_of(ProcessFacts, recorded, command=event.command[:MAX_DETAIL])

    def _start_wait(self, event: WaitStarted, recorded: Recorded) -> None:
        key = self._open_waits.setdefault(event.wait, (event.wait, recorded.seq))
        known = self.waits.get(key)
        if event.call:
            self._calls[event.call] = event.wait
        self.waits[key] = Wait(
            seq=known.seq if known else recorded.seq,
            started_us=known.started_us if known else recorded.time_us,
            what=joined(event)[:MAX_DETAIL],
            reason=event.reason[:MAX_DETAIL],
            iteration=self._iterations.number,
        )

    def _wake(self, event: WaitEnded, recorded: Recorded) -> None:
        summary = event.summary[:MAX_DETAIL]
        self._end_wait(event.wait, recorded.time_us, cause=event.cause, summary=summary, late_s=event.late_s)

    def _end_wait(self, name: str, time_us: int, **how: str | float) -> None:
        """Ends a wait, once: one of a call is over with its call."""
        key = self._open_waits.pop(name, None)
        if key is not None:
            wait = self.waits[key]
            took_s = max(time_us - wait.started_us, 0) / 1e6
            self.waits[key] = msgspec.structs.replace(wait, duration_s=took_s, **how)

    def _fail(self, event: RequestFailed, recorded: Recorded) -> None:
        known = self.outages.get(event.error)
        is_retried = event.retry_in_s is not None
        models = (*(known.models if known else ()), *filter(None, (event.model,)))
        self.outages[event.error] = Outage(
            error=event.error,
            retries=(known.retries if known else 0) + is_retried,
            given_up=(known.given_up if known else 0) + (not is_retried),
            first_seq=known.first_seq if known else recorded.seq,
            last_seq=recorded.seq,
            last_us=recorded.time_us,
            message=event.message[:MAX_DETAIL],
            models=tuple(dict.fromkeys(models)),
        )

    def _ask(self, event: ApprovalAsked, recorded: Recorded) -> None:
        arguments, reason = event.arguments[:MAX_DETAIL], why_asked(event)[:MAX_DETAIL]
        asked = fact_of(Approval, recorded, arguments=arguments, reason=reason)
        self.approvals[event.call, event.arguments_sha256] = asked

    def _answer(self, event: ApprovalGiven, recorded: Recorded) -> None:
        key = (event.call, event.arguments_sha256)
        known: dict[str, Any] = {"tool": "", "arguments": ""}
        if asked := self.approvals.get(key):
            known = {name: getattr(asked, name) for name in ("seq", "tool", "arguments", "reason")}
        self.approvals[key] = fact_of(Approval, recorded, answer_seq=recorded.seq, **known)

    def _resume(self, event: SessionResumed, recorded: Recorded) -> None:
        """A new process is no surprise when nobody was at work."""
        away = duration(max(recorded.time_us - self._before_us, 0) / 1e6) if self._before_us else ""
        who = f"process {event.pid} on {event.host}, mainspring {event.version}"
        if self._goal.origin is None or self._goal.ended or self._goal.paused:
            self._interrupted(recorded, "taken up again", f"after {away}, by {who}")
        else:
            detail = f"the last event before was {away} earlier; taken over by {who}"
            self._interrupted(recorded, "interrupted without a word, and resumed", detail)

    def _crash(self, event: Crashed, recorded: Recorded) -> None:
        detail = "\n".join(event.traceback.strip().splitlines()[-_LAST_LINES:])
        self._interrupted(recorded, "mainspring crashed", detail)

    def _interrupted(self, recorded: Recorded, what: str, detail: str) -> None:
        self.crashes.append(Notice(seq=recorded.seq, time_us=recorded.time_us, what=what, detail=detail))

    def _end_call(self, event: CallEnded, recorded: Recorded) -> None:
        self._end_wait(self._calls.get(event.call, ""), recorded.time_us, cause="cancelled")
        if event.suspicious:
            self._notice(recorded, "output that reads like orders", " … ".join(event.suspicious))

    def _warn(self, event: Event, recorded: Recorded) -> None:
        what = _WARNINGS[type(event)]
        if line := as_text(event):
            self._notice(recorded, what, line.removeprefix("! ").removeprefix(f"{what}: "))

    def _notice(self, recorded: Recorded, what: str, detail: str) -> None:
        notice = Notice(seq=recorded.seq, time_us=recorded.time_us, what=what, detail=detail[:MAX_DETAIL])
        self.notices.append(notice)

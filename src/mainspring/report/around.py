"""What happened around the work: waits, outages, questions, warnings, processes, crashes; folded."""

from __future__ import annotations

import msgspec

from mainspring.approvals import why_asked
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
from mainspring.events.counts import plural
from mainspring.report.facts import Approval, Notice, Outage, ProcessFacts, Wait, fact_of
from mainspring.waits.describe import duration, joined

KINDS: tuple[type[Event], ...] = (
    WaitStarted,
    WaitEnded,
    RequestFailed,
    ApprovalAsked,
    ApprovalGiven,
    SandboxChosen,
    ModeChosen,
    ProcessStarted,
    ProcessEnded,
    SessionResumed,
    Crashed,
    Undone,
    GuardTripped,
    BudgetWarned,
    RoutingWarned,
    MemoryKeptAside,
    EngineEnded,
    CallEnded,
)
MAX_DETAIL = 500
_LAST_LINES = 12


class EventsAround:
    def __init__(self) -> None:
        self.waits: dict[tuple[str, int], Wait] = {}
        self.outages: dict[str, Outage] = {}
        self.approvals: dict[tuple[str, str], Approval] = {}
        self.notices: list[Notice] = []
        self.crashes: list[Notice] = []
        self.processes: dict[str, ProcessFacts] = {}
        self.rungs: dict[str, None] = {}
        self.mode = ""
        self._open_waits: dict[str, tuple[str, int]] = {}
        self._calls: dict[str, str] = {}
        self._before_us = 0

    def apply(self, recorded: Recorded, iteration: int, *, is_expected: bool) -> None:
        """Takes an event in; `is_expected` when nobody was at work, so that a new process is no surprise."""
        match recorded.event:
            case CallEnded(call=call):
                self._end_wait(self._calls.get(call, ""), recorded.time_us, cause="cancelled")
                self._notice(recorded)
            case WaitStarted() | WaitEnded():
                self._apply_wait(recorded, iteration)
            case RequestFailed() as event:
                self._apply_failure(event, recorded)
            case ApprovalAsked() | ApprovalGiven():
                self._apply_approval(recorded)
            case SandboxChosen(rung=rung):
                self.rungs[rung] = None
            case ModeChosen(mode=mode, level=level):
                self.mode = f"{mode} ({level})" if level else mode
            case ProcessStarted() as event:
                shown = msgspec.structs.replace(event, command=event.command[:MAX_DETAIL])
                self.processes[event.handle] = ProcessFacts(seq=recorded.seq, **msgspec.structs.asdict(shown))
            case ProcessEnded(handle=handle):
                self.processes.pop(handle, None)
            case SessionResumed() | Crashed() | Undone():
                self._apply_crash(recorded, is_expected=is_expected)
            case _:
                self._notice(recorded)
        self._before_us = recorded.time_us

    def _apply_wait(self, recorded: Recorded, iteration: int) -> None:
        match recorded.event:
            case WaitStarted() as event:
                key = self._open_waits.setdefault(event.wait, (event.wait, recorded.seq))
                known = self.waits.get(key)
                if event.call:
                    self._calls[event.call] = event.wait
                self.waits[key] = Wait(
                    seq=known.seq if known else recorded.seq,
                    started_us=known.started_us if known else recorded.time_us,
                    what=joined(event)[:MAX_DETAIL],
                    reason=event.reason[:MAX_DETAIL],
                    iteration=iteration,
                )
            case WaitEnded() as event:
                self._end_wait(
                    event.wait,
                    recorded.time_us,
                    cause=event.cause,
                    summary=event.summary[:MAX_DETAIL],
                    late_s=event.late_s,
                )
            case _:
                pass

    def _end_wait(self, name: str, time_us: int, **how: str | float) -> None:
        """Ends a wait, once: one of a call is over with its call."""
        key = self._open_waits.pop(name, None)
        if key is not None:
            wait = self.waits[key]
            took_s = max(time_us - wait.started_us, 0) / 1e6
            self.waits[key] = msgspec.structs.replace(wait, duration_s=took_s, **how)

    def _apply_failure(self, event: RequestFailed, recorded: Recorded) -> None:
        known = self.outages.get(event.error) or Outage(
            error=event.error,
            retries=0,
            given_up=0,
            first_seq=recorded.seq,
            last_seq=recorded.seq,
            last_us=recorded.time_us,
            message="",
        )
        is_retried = event.retry_in_s is not None
        self.outages[event.error] = msgspec.structs.replace(
            known,
            retries=known.retries + is_retried,
            given_up=known.given_up + (not is_retried),
            last_seq=recorded.seq,
            last_us=recorded.time_us,
            message=event.message[:MAX_DETAIL],
            models=tuple(dict.fromkeys((*known.models, *filter(None, (event.model,))))),
        )

    def _apply_approval(self, recorded: Recorded) -> None:
        match recorded.event:
            case ApprovalAsked() as event:
                arguments, reason = event.arguments[:MAX_DETAIL], why_asked(event)[:MAX_DETAIL]
                asked = fact_of(Approval, recorded, arguments=arguments, reason=reason)
                self.approvals[event.call, event.arguments_sha256] = asked
            case ApprovalGiven() as event:
                key = (event.call, event.arguments_sha256)
                asked = self.approvals.get(key) or Approval(
                    seq=recorded.seq, call=event.call, tool="", arguments=""
                )
                known = {name: getattr(asked, name) for name in ("seq", "tool", "arguments", "reason")}
                self.approvals[key] = fact_of(Approval, recorded, answer_seq=recorded.seq, **known)
            case _:
                pass

    def _apply_crash(self, recorded: Recorded, *, is_expected: bool) -> None:
        away = duration(max(recorded.time_us - self._before_us, 0) / 1e6) if self._before_us else ""
        match recorded.event:
            case SessionResumed() as event:
                who = f"process {event.pid} on {event.host}, mainspring {event.version}"
                if is_expected:
                    what, detail = "taken up again", f"after {away}, by {who}"
                else:
                    what = "interrupted without a word, and resumed"
                    detail = f"the last event before was {away} earlier; taken over by {who}"
            case Crashed() as event:
                what = "mainspring crashed"
                detail = "\n".join(event.traceback.strip().splitlines()[-_LAST_LINES:])
            case Undone() as event:
                what = "taken back"
                detail = f"everything after event {event.to_seq} ({event.scope}) no longer counts"
            case _:
                return
        self.crashes.append(Notice(seq=recorded.seq, time_us=recorded.time_us, what=what, detail=detail))

    def _notice(self, recorded: Recorded) -> None:
        match recorded.event:
            case GuardTripped() as event:
                end = "ended the turn" if event.is_final else "told the agent"
                what, detail = f"guard {event.guard} {end}", event.message
            case BudgetWarned() as event:
                unit = "USD" if event.unit == "usd" else "tokens"
                what = f"{event.percent} % of the {event.scope}'s budget spent"
                detail = f"{event.spent:,.6g} of {event.cap:,.6g} {unit}"
            case RoutingWarned() as event:
                what, detail = "choice of models", event.message
            case MemoryKeptAside() as event:
                what, detail = "memory file put aside", f"{event.path}: {event.reason}"
            case EngineEnded() as event if event.left_running or event.unread_lines or event.reason:
                what, detail = "engine", _engine(event)
            case CallEnded() as event if event.suspicious:
                what, detail = "output that reads like orders", " … ".join(event.suspicious)
            case _:
                return
        notice = Notice(seq=recorded.seq, time_us=recorded.time_us, what=what, detail=detail[:MAX_DETAIL])
        self.notices.append(notice)


def _engine(event: EngineEnded) -> str:
    told = [event.reason] if event.reason else []
    if event.left_running:
        numbers = ", ".join(map(str, event.left_running[:_LAST_LINES]))
        count = plural(len(event.left_running), "process")
        told.append(f"it had left {count} running ({numbers}), which the goal may wait for")
    if event.unread_lines:
        told.append(f"{plural(event.unread_lines, 'line')} of its output could not be read: {event.unread}")
    return "; ".join(told)

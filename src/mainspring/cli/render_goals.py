"""Events of goals and waits as lines for people. Pure, as `render` is."""

from __future__ import annotations

from mainspring.events import (
    ArtifactsChanged,
    CheckEnded,
    ClaimChecked,
    ClaimsRead,
    ConditionMet,
    EngineChosen,
    EngineEnded,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationEnded,
    IterationStarted,
    MeasurementsTaken,
    MemoryKeptAside,
    WaitEnded,
    WaitStarted,
)
from mainspring.waits.describe import clock, duration, joined

_SHOWN_VALUES = 20


def goal_text(event: Event) -> str:
    """What a person reads about an event of a goal; empty for every other."""
    match event:
        case GoalSet():
            return f"◎ goal ({event.profile}, {event.engine}): {event.text}"
        case IterationStarted():
            return f"◎ iteration {event.iteration}"
        case IterationEnded():
            new = f"; new: {', '.join(event.changed)}" if event.changed else "; nothing new"
            return f"◎ iteration {event.iteration} {event.outcome}{new}. {event.detail}".rstrip(". ")
        case GoalPaused():
            return f"◎ paused: {event.reason}".removesuffix(": ")
        case GoalEnded():
            proof = {True: ", verified", False: ", unverified"}[event.is_verified]
            return f"◎ goal {event.ending}{proof if event.ending == 'done' else ''}: {event.reason}"
        case EngineChosen():
            is_told_elsewhere = event.conversation or not (event.program or event.engine == "builtin")
            return "" if is_told_elsewhere else f"· engine {event.engine} {event.version}".rstrip()
        case EngineEnded():
            return _engine_ended(event)
        case WaitStarted() | ConditionMet() | WaitEnded():
            return _wait(event)
        case _:
            return _findings(event)


def _engine_ended(event: EngineEnded) -> str:
    """Nothing, when all went as it should."""
    told = [f"exit code {event.exit_code}"] if event.exit_code else []
    told += [event.reason] if event.reason else []
    told += [f"{event.unread_lines} lines could not be read"] if event.unread_lines else []
    if event.left_running:
        told.append(f"it had left {len(event.left_running)} processes running")
    return f"! engine: {'; '.join(told)}" if told else ""


def _findings(event: Event) -> str:
    match event:
        case ArtifactsChanged():
            counts = {kind: getattr(event, kind) for kind in ("new", "modified", "deleted", "renamed")}
            return "· artifacts: " + ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        case MeasurementsTaken():
            values = [
                f"{item.metric}={item.value:g}{item.unit and ' ' + item.unit}"
                for item in event.values[:_SHOWN_VALUES]
            ]
            more = len(event.values) - len(values)
            shown = ", ".join([*values, *([f"and {more:,} more values"] if more else [])])
            return "\n".join([f"· measured: {shown}", *(f"! {flag}" for flag in event.flags)])
        case ClaimsRead():
            problems = [f"! {problem}" for problem in event.problems]
            return "\n".join([f"· {len(event.claims)} claims", *problems])
        case ClaimChecked():
            return f"· claim {event.claim} {event.status}: {event.detail}".removesuffix(": ")
        case CheckEnded():
            mark = "✓" if event.passed else "✗"
            return f"  {mark} check {event.check}: {event.detail}".removesuffix(": ")
        case MemoryKeptAside():
            return f"! the memory file was put aside as {event.path}: {event.reason}"
        case _:
            return ""


def _wait(event: WaitStarted | ConditionMet | WaitEnded) -> str:
    match event:
        case WaitStarted():
            until = "" if event.deadline_us is None else f", until {clock(event.deadline_us)} at most"
            return f"◷ waiting for {joined(event)}{until}"
        case ConditionMet():
            return f"◷ {event.detail}"
        case WaitEnded():
            late = f" ({duration(event.late_s)} ago, while nobody was here)" if event.late_s >= 1 else ""
            summary = event.summary.replace("\n(", " (")
            return f"◷ woken, {event.cause}: {summary}{late}"

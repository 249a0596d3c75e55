"""Events of goals, waits and engines as lines for people; a part of the table in `lines`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.events import (
    CHILD_WAIT,
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
from mainspring.events.counts import plural
from mainspring.waits.describe import clock, duration, joined

_SHOWN_VALUES = 20
_SHOWN_PROCESSES = 12


def flags(suspicious: tuple[str, ...]) -> list[str]:
    """A line for each quote of what reads like orders to the model."""
    return [f"⚠ this reads like orders to the model: “{quote}”" for quote in suspicious]


def _goal_set(event: GoalSet) -> str:
    return "\n".join([f"◎ goal ({event.profile}, {event.engine}): {event.text}", *flags(event.suspicious)])


def _goal_paused(event: GoalPaused) -> str:
    return f"◎ paused: {event.reason}".removesuffix(": ")


def _goal_ended(event: GoalEnded) -> str:
    grade = event.grade or ("verified" if event.is_verified else "claimed")
    return f"◎ goal {event.ending}{f', {grade}' if event.ending == 'done' else ''}: {event.reason}"


def _iteration_started(event: IterationStarted) -> str:
    total = f"/{event.max_iterations}" if event.max_iterations else ""
    return f"◎ iteration {event.iteration}{total}"


def _iteration_ended(event: IterationEnded) -> str:
    new = f"; new: {', '.join(event.changed)}" if event.changed else "; nothing new"
    return f"◎ iteration {event.iteration} {event.outcome}{new}. {event.detail}".rstrip(". ")


def _engine_chosen(event: EngineChosen) -> str:
    is_told_elsewhere = event.conversation or not (event.program or event.engine == "builtin")
    return "" if is_told_elsewhere else f"· engine {event.engine} {event.version}".rstrip()


def _engine_ended(event: EngineEnded) -> str:
    """Nothing, when all went as it should."""
    told = [f"exit code {event.exit_code}"] if event.exit_code else []
    told += [event.reason] if event.reason else []
    if event.left_running:
        numbers = ", ".join(map(str, event.left_running[:_SHOWN_PROCESSES]))
        told.append(f"it had left {plural(len(event.left_running), 'process')} running ({numbers})")
    if event.unread_lines:
        told.append(f"{plural(event.unread_lines, 'line')} of its output could not be read: {event.unread}")
    return f"! engine: {'; '.join(told)}" if told else ""


def _artifacts_changed(event: ArtifactsChanged) -> str:
    if event.frozen:
        return f"· {plural(len(event.frozen), 'frozen file')} kept"
    if not event.iteration:
        return f"· artifacts before the first iteration: {plural(event.new, 'file')}"
    counts = {kind: getattr(event, kind) for kind in ("new", "modified", "deleted", "renamed")}
    return "· artifacts: " + ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def _measurements_taken(event: MeasurementsTaken) -> str:
    if not (event.values or event.flags or event.parameters):
        return ""
    values = [
        f"{item.metric}={item.value:g}{item.unit and ' ' + item.unit}"
        for item in event.values[:_SHOWN_VALUES]
    ]
    more = len(event.values) - len(values)
    shown = ", ".join([*values, *([f"and {plural(more, 'more value')}"] if more else [])])
    if event.parameters:
        told = ", ".join(f"{item.name}={item.value}" for item in event.parameters[:_SHOWN_VALUES])
        shown = f"{shown or 'nothing'} (with {told})"
    return "\n".join([f"· measured: {shown or 'nothing'}", *(f"! {flag}" for flag in event.flags)])


def _claims_read(event: ClaimsRead) -> str:
    return "\n".join(
        [f"· {plural(len(event.claims), 'claim')}", *(f"! {problem}" for problem in event.problems)]
    )


def _claim_checked(event: ClaimChecked) -> str:
    return f"· claim {event.claim} {event.status}: {event.detail}".removesuffix(": ")


def _check_ended(event: CheckEnded) -> str:
    mark = "✓" if event.passed else "✗"
    told = f"  {mark} check {event.check}: {event.detail}".removesuffix(": ")
    written = f"written or changed by the agent: {', '.join(event.written)}" if event.written else ""
    return "\n".join([told, *(f"    ! {doubt}" for doubt in (written, *event.doubts) if doubt)])


def _memory_kept_aside(event: MemoryKeptAside) -> str:
    return f"! the memory file was put aside as {event.path}: {event.reason}"


def _wait_started(event: WaitStarted) -> str:
    if event.wait.startswith(CHILD_WAIT):
        return ""  # the child has lines of its own
    until = "" if event.deadline_us is None else f", until {clock(event.deadline_us)} at most"
    return f"◷ waiting for {joined(event)}{until}"


def _condition_met(event: ConditionMet) -> str:
    return f"◷ {event.detail}"


def _wait_ended(event: WaitEnded) -> str:
    if event.wait.startswith(CHILD_WAIT):
        return ""
    late = f" ({duration(event.late_s)} ago, while nobody was here)" if event.late_s >= 1 else ""
    summary = event.summary.replace("\n(", " (")
    return f"◷ woken, {event.cause}: {summary}{late}"


GOAL_LINES: dict[type[Event], Callable[[Any], str]] = {
    EngineChosen: _engine_chosen,
    EngineEnded: _engine_ended,
    WaitStarted: _wait_started,
    ConditionMet: _condition_met,
    WaitEnded: _wait_ended,
    GoalSet: _goal_set,
    IterationStarted: _iteration_started,
    ArtifactsChanged: _artifacts_changed,
    MeasurementsTaken: _measurements_taken,
    ClaimsRead: _claims_read,
    ClaimChecked: _claim_checked,
    CheckEnded: _check_ended,
    IterationEnded: _iteration_ended,
    MemoryKeptAside: _memory_kept_aside,
    GoalPaused: _goal_paused,
    GoalEnded: _goal_ended,
}

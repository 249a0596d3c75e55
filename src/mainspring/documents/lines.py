"""Events as lines for people: `LINES` has a function for every kind that is stored. Control characters never
reach a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

from mainspring.documents.agent_lines import AGENT_LINES
from mainspring.documents.approval_lines import APPROVAL_LINES
from mainspring.documents.attempt_lines import ATTEMPT_LINES
from mainspring.documents.call_lines import call_line
from mainspring.documents.figures import money
from mainspring.documents.fix_lines import FIX_LINES
from mainspring.documents.goal_lines import GOAL_LINES, flags
from mainspring.documents.job_lines import JOB_LINES
from mainspring.documents.review_lines import REVIEW_LINES
from mainspring.documents.work_lines import WORK_LINES, WORK_SHORTENED
from mainspring.events import (
    AssistantSaid,
    BranchMoved,
    BudgetWarned,
    CallAsked,
    CallEnded,
    CallStarted,
    CommandAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    Crashed,
    EffortChosen,
    Event,
    FileChange,
    FilesChanged,
    GuardTripped,
    Media,
    MediaLeftOut,
    ModeChosen,
    ModelChosen,
    PlanSet,
    ProcessEnded,
    ProcessStarted,
    Progress,
    PromptSet,
    Remembered,
    RequestFailed,
    RewindStarted,
    RoutingWarned,
    SandboxChosen,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    Text,
    Thinking,
    TurnEnded,
    TurnStarted,
    Undone,
    Unknown,
    UserSaid,
    WorkFinished,
)
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain, plain_name

_MARKS: dict[Progress, str] = {"open": "☐", "doing": "▶", "done": "☑"}
_MAX_LINES = 12
_CHANGE_MARKS = {"created": "+", "modified": "~", "deleted": "-", "renamed": ">", "mode": "~"}


def as_text(event: Event, *, whole: bool = False) -> str:
    """What a person reads about an event; empty for bookkeeping that would only be noise, and for deltas."""
    line = (None if whole else _SHORTENED.get(type(event))) or LINES.get(type(event), _nothing)
    return plain(line(event))


def _nothing(event: Event) -> str:  # noqa: ARG001
    return ""


def _session_started(event: SessionStarted) -> str:
    whose = f", {event.agent} of {event.parent}" if event.agent else ""
    return f"· session {event.session} in {event.workspace}{whose}"


def _session_resumed(event: SessionResumed) -> str:
    return f"· resumed by process {event.pid} on {event.host}"


def _model_chosen(event: ModelChosen) -> str:
    tier = f"{event.tier}: " if event.tier else ""
    return f"· model {tier}{event.model}" + (f" ({event.reason})" if event.reason else "")


def _media_left_out(event: MediaLeftOut) -> str:
    return f"! left out, {event.model} cannot see it: {', '.join(event.names)}: {event.reason}"


def _routing_warned(event: RoutingWarned) -> str:
    return f"! {event.message}"


def _effort_chosen(event: EffortChosen) -> str:
    return f"· effort {event.effort or 'as the provider chooses'}"


def _mode_chosen(event: ModeChosen) -> str:
    return f"· mode {event.mode}" + (f" ({event.level})" if event.level else "")


def _sandbox_chosen(event: SandboxChosen) -> str:
    return f"· sandbox {event.rung}" + (": commands are not confined" if event.rung == "none" else "")


def _user_said(event: UserSaid) -> str:
    return "\n".join([f"» {event.text}", *attachment_lines(event.media)])


def attachment_lines(media: Sequence[Media]) -> list[str]:
    """What was shown to the model with a message, and what of it reads like orders."""
    lines: list[str] = []
    for item in media:
        kind = item.blob.media_type
        lines.append(f"  attached {plain_name(item.name or 'a file')} ({kind}, {item.blob.size:,} bytes)")
        lines += [f"    {flag}" for flag in flags(item.suspicious)]
    return lines


def _request_failed(event: RequestFailed) -> str:
    again = "" if event.retry_in_s is None else f" (trying again{_in_time(event.retry_in_s)})"
    whose = "" if event.step or not event.model else f" of {event.model}"
    return f"! {event.error}{whose}: {event.message}{again}"


def _assistant_said(event: AssistantSaid) -> str:
    return "\n".join(filter(None, (_part(part) for part in event.parts)))


def _process_started(event: ProcessStarted) -> str:
    return f"· process {event.handle} started: {event.command}"


def _process_ended(event: ProcessEnded) -> str:
    code = "" if event.exit_code is None else f", exit code {event.exit_code}"
    aside = f" (set aside: {', '.join(event.set_aside)})" if event.set_aside else ""
    return f"· process {event.handle} ended{code}: {event.reason}".removesuffix(": ") + aside


def _guard_tripped(event: GuardTripped) -> str:
    return f"! {event.guard}: {event.message}" + (" (ends the turn)" if event.is_final else "")


def _plan_set(event: PlanSet) -> str:
    return "\n".join(["· plan:", *(f"  {_MARKS[item.progress]} {item.text}" for item in event.items)])


def _remembered(event: Remembered) -> str:
    return f"· remembered: {event.text}"


def _work_finished(event: WorkFinished) -> str:
    cited = (f"  {item.claim} ({', '.join(item.calls)})" for item in event.evidence)
    return "\n".join([f"· finished: {event.summary}", *cited])


def _command_asked(event: CommandAsked) -> str:
    return f"$ {shlex.join(event.argv)}"


def _command_started(event: CommandStarted) -> str:
    return f"  allowed: {event.reason}"


def _command_ended(event: CommandEnded) -> str:
    code = "" if event.exit_code is None else f", exit code {event.exit_code}"
    outcome = "timeout" if event.is_timeout else event.outcome
    return f"  {outcome}{code}: {event.reason}".removesuffix(": ")


def _branch_moved(event: BranchMoved) -> str:
    left = "".join(f"\n  ! not committed: {name}" for name in event.left_out)
    is_empty = event.action == "committed" and not event.files and event.left_out
    action = "has nothing new to commit" if is_empty else event.action
    why = (
        f"\n  subject not drafted by {event.drafted_by}: {event.draft_problem}" if event.draft_problem else ""
    )
    return f"· branch {event.branch} {action}, at {event.commit[:12]}{left}{why}"


def _rewind_started(event: RewindStarted) -> str:
    return f"· putting files back as they were after event {event.to_seq}"


def _undone(event: Undone) -> str:
    what = {"conversation": "everything said", "files": "every change of files", "both": "everything"}
    return f"· undone: {what[event.scope]} after event {event.to_seq}"


def _crashed(event: Crashed) -> str:
    return f"! {event.traceback}"


def _unknown(event: Unknown) -> str:
    return f"· {event.kind} (of a newer version)"


def _spend_settled(event: SpendSettled) -> str:
    if event.speed is None:
        return ""
    usage, speed = event.usage, event.speed
    read = f"{usage.input_tokens:,} tokens read at {speed.input_per_s:.0f}/s"
    return f"  ({read}, {usage.output_tokens:,} written at {speed.output_per_s:.0f}/s)"


def _in_time(wait_s: float) -> str:
    return f" in {wait_s:.0f} s" if wait_s >= 1 else " at once"


def _budget_warned(event: BudgetWarned) -> str:
    if event.unit == "usd":
        amount = f"{money(event.spent)} of {money(event.cap)}"
    else:
        amount = f"{event.spent:,.0f} of {event.cap:,.0f} tokens"
    return f"! {event.percent} % of the {event.scope}'s budget is spent: {amount}"


def _compacted(event: Compacted) -> str:
    if not event.summary and not event.stubbed:
        return "· history is whole again" if event.keep_from_seq == 1 else "· a fresh history"
    by = f" by {event.model}" if event.model else ""
    stubs = f", {plural(len(event.stubbed), 'long text')} left out" if event.stubbed else ""
    why = f" ({event.reason})" if event.reason else ""
    return (
        f"· history compacted{by}{why}: {event.tokens_before:,} → {event.tokens_after:,} tokens;"
        f" kept from event {event.keep_from_seq} on{stubs}"
    )


def ended_line(event: TurnEnded, *, in_goal: bool = False) -> str:
    """In a goal only its turn is over, and nothing is said of being done."""
    ended = "ended" if event.ending == "done" else event.ending
    ending = f"turn {ended}" if in_goal else event.ending
    steps = f"{plural(event.steps, 'step')}, " if event.steps else ""
    cost = f"{steps}{plural(event.usage.total_tokens, 'token')}, {money(event.cost_usd)}"
    detail = f": {event.detail}" if event.detail and event.ending != "done" else ""
    remedy = f" {event.remedy}" if event.remedy else ""
    return f"■ {ending}{detail}{remedy} ({cost})"


def _part(part: Text | Thinking | CallAsked) -> str:
    match part:
        case Text():
            return part.text
        case Thinking():
            return ""
        case CallAsked():
            return call_line(part)


def change_line(change: FileChange) -> str:
    """One line: what became of the path."""
    mark = _CHANGE_MARKS[change.kind]
    if change.kind == "renamed":
        return f"{mark} {change.renamed_from} → {change.path}"
    if change.kind == "mode" and change.before and change.after:
        return f"{mark} {change.path} (mode {change.before.mode:04o} → {change.after.mode:04o})"
    state = change.after or change.before
    suffix = "/" if state and state.kind == "folder" else ""
    reason = next((f" ({item.reason})" for item in (change.before, change.after) if item and item.reason), "")
    return f"{mark} {change.path}{suffix}{reason}"


def _files_changed(event: FilesChanged) -> str:
    return _files(event, len(event.changes))


def _files_changed_shortened(event: FilesChanged) -> str:
    return _files(event, _MAX_LINES)


def _files(event: FilesChanged, most: int) -> str:
    lines = [f"  {plain_name(change_line(change))}" for change in event.changes]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"  … {plural(len(lines) - most + 1, 'more file')} …"]
    return "\n".join([*lines, *(f"  ! not covered: {note}" for note in event.not_covered)])


def _call_ended(event: CallEnded) -> str:
    return _result(event, event.output.splitlines())


def _call_ended_shortened(event: CallEnded) -> str:
    lines, half = event.output.splitlines(), _MAX_LINES // 2
    if len(lines) > _MAX_LINES:
        lines = [*lines[:half], f"… {plural(len(lines) - 2 * half, 'more line')} …", *lines[-half:]]
    return _result(event, lines)


def _result(event: CallEnded, lines: list[str]) -> str:
    mark = "✓" if event.outcome == "ok" else f"✗ {event.outcome}:"
    return f"  {mark} " + "\n    ".join([*(lines or ["(no output)"]), *flags(event.suspicious)])


LINES: dict[type[Event], Callable[[Any], str]] = {
    SessionStarted: _session_started,
    SessionResumed: _session_resumed,
    PromptSet: _nothing,
    ModelChosen: _model_chosen,
    RoutingWarned: _routing_warned,
    MediaLeftOut: _media_left_out,
    EffortChosen: _effort_chosen,
    ModeChosen: _mode_chosen,
    SandboxChosen: _sandbox_chosen,
    UserSaid: _user_said,
    TurnStarted: _nothing,
    SpendReserved: _nothing,
    SpendSettled: _spend_settled,
    BudgetWarned: _budget_warned,
    RequestFailed: _request_failed,
    AssistantSaid: _assistant_said,
    CallStarted: _nothing,
    CallEnded: _call_ended,
    ProcessStarted: _process_started,
    ProcessEnded: _process_ended,
    GuardTripped: _guard_tripped,
    PlanSet: _plan_set,
    Remembered: _remembered,
    WorkFinished: _work_finished,
    CommandAsked: _command_asked,
    CommandStarted: _command_started,
    CommandEnded: _command_ended,
    FilesChanged: _files_changed,
    BranchMoved: _branch_moved,
    Compacted: _compacted,
    RewindStarted: _rewind_started,
    Undone: _undone,
    Crashed: _crashed,
    TurnEnded: ended_line,
    Unknown: _unknown,
    **GOAL_LINES,
    **WORK_LINES,
    **ATTEMPT_LINES,
    **FIX_LINES,
    **AGENT_LINES,
    **JOB_LINES,
    **REVIEW_LINES,
    **APPROVAL_LINES,
}
"""How each kind of event reads, in full; every kind that is stored has its entry."""

_SHORTENED: dict[type[Event], Callable[[Any], str]] = {
    CallEnded: _call_ended_shortened,
    FilesChanged: _files_changed_shortened,
    **WORK_SHORTENED,
}
"""The same of those that may be long, for whoever watches."""

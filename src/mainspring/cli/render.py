"""Events as lines for people. Pure: text in, text out; control characters never reach a terminal."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, tzinfo

import msgspec

from mainspring.approvals import why_asked
from mainspring.cli.render_goals import goal_text
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
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
    Ending,
    Event,
    FileChange,
    FilesChanged,
    GuardTripped,
    ModeChosen,
    ModelChosen,
    NoteAdded,
    PlanSet,
    ProcessEnded,
    ProcessStarted,
    Progress,
    Recorded,
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
    encode,
)
from mainspring.secrets.screen import plain, plain_name

EXIT_CODES: dict[Ending, int] = {
    "done": 0,
    "failed": 1,
    "blocked": 3,
    "waiting": 3,
    "budget": 4,
    "limit": 5,
    "interrupted": 130,
}

_MARKS: dict[Progress, str] = {"open": "☐", "doing": "▶", "done": "☑"}
_MAX_LINES = 12
_MAX_ARGUMENTS = 160
_CHANGE_MARKS = {"created": "+", "modified": "~", "deleted": "-", "renamed": ">", "mode": "~"}


def when(time_us: int) -> str:
    if not time_us:
        return f"{'nobody knows':<20}"
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def local_time(time_us: int, zone: tzinfo) -> str:
    """A time as the clock on the wall shows it there."""
    return datetime.fromtimestamp(time_us / 1e6, zone).isoformat(timespec="minutes")


def money(usd: float) -> str:
    return f"${usd:.4f}" if usd else "$0"


def as_json(recorded: Recorded) -> bytes:
    """One event as a line of JSON."""
    kind, body = encode(recorded.event)
    head = {"seq": recorded.seq, "time": when(recorded.time_us), "kind": kind}
    return msgspec.json.encode({**head, "body": msgspec.Raw(body)})


def as_text(event: Event, *, whole: bool = False) -> str:
    """What a person reads about an event; empty for bookkeeping that would only be noise."""
    return plain(_text(event, whole=whole))


def _text(event: Event, *, whole: bool) -> str:
    match event:
        case UserSaid():
            return f"» {event.text}"
        case AssistantSaid():
            return "\n".join(filter(None, (_part(part) for part in event.parts)))
        case CallEnded():
            return _ended(event, whole=whole)
        case ApprovalAsked():
            return f"? {event.tool} needs approval: {why_asked(event)}\n  {event.arguments[:_MAX_ARGUMENTS]}"
        case ApprovalGiven():
            feedback = f": {event.feedback}" if event.feedback else ""
            reach = "" if event.scope == "once" else f", {event.scope}"
            return f"? {event.decision}{reach} by {event.by}{feedback}"
        case TurnEnded():
            return ended_line(event)
        case SpendSettled():
            return _speed(event)
        case FilesChanged():
            return _changed(event, whole=whole)
        case CallStarted() | SpendReserved() | TurnStarted():
            return ""
        case _:
            return _about_session(event)


def _about_session(event: Event) -> str:
    match event:
        case RequestFailed():
            again = "" if event.retry_in_s is None else f" (trying again{_in_time(event.retry_in_s)})"
            whose = "" if event.step or not event.model else f" of {event.model}"
            return f"! {event.error}{whose}: {event.message}{again}"
        case GuardTripped():
            return f"! {event.guard}: {event.message}"
        case Crashed():
            return f"! {event.traceback}"
        case BudgetWarned():
            return _warned(event)
        case NoteAdded():
            return f"· note from {event.source}: {event.text}"
        case PlanSet():
            return "\n".join(["· plan:", *(f"  {_MARKS[item.progress]} {item.text}" for item in event.items)])
        case Remembered():
            return f"· remembered: {event.text}"
        case WorkFinished():
            cited = (f"  {item.claim} ({', '.join(item.calls)})" for item in event.evidence)
            return "\n".join([f"· finished: {event.summary}", *cited])
        case CommandAsked() | CommandStarted() | CommandEnded() | ProcessStarted() | ProcessEnded():
            return _about_command(event)
        case _:
            return _about_settings(event)


def _about_command(
    event: CommandAsked | CommandStarted | CommandEnded | ProcessStarted | ProcessEnded,
) -> str:
    match event:
        case CommandAsked():
            return f"$ {shlex.join(event.argv)}"
        case CommandStarted():
            return f"  allowed: {event.reason}"
        case CommandEnded():
            code = "" if event.exit_code is None else f", exit code {event.exit_code}"
            return f"  {event.outcome}{code}: {event.reason}".removesuffix(": ")
        case ProcessStarted():
            return f"· process {event.handle} started: {event.command}"
        case ProcessEnded():
            code = "" if event.exit_code is None else f", exit code {event.exit_code}"
            aside = f" (set aside: {', '.join(event.set_aside)})" if event.set_aside else ""
            return f"· process {event.handle} ended{code}: {event.reason}".removesuffix(": ") + aside


def _about_settings(event: Event) -> str:
    match event:
        case SessionStarted():
            return f"· session {event.session} in {event.workspace}"
        case SessionResumed():
            return f"· resumed by process {event.pid} on {event.host}"
        case ModeChosen():
            return f"· mode {event.mode}" + (f" ({event.level})" if event.level else "")
        case SandboxChosen():
            return f"· sandbox {event.rung}" + (": commands are not confined" if event.rung == "none" else "")
        case Unknown():
            return f"· {event.kind} (of a newer version)"
        case Compacted() | BranchMoved() | RewindStarted() | Undone():
            return _about_going_back(event)
        case _:
            return _about_model(event)


def _about_model(event: Event) -> str:
    match event:
        case ModelChosen():
            tier = f"{event.tier}: " if event.tier else ""
            return f"· model {tier}{event.model}" + (f" ({event.reason})" if event.reason else "")
        case RoutingWarned():
            return f"! {event.message}"
        case EffortChosen():
            return f"· effort {event.effort or 'as the provider chooses'}"
        case _:
            return goal_text(event)


def _about_going_back(event: Compacted | BranchMoved | RewindStarted | Undone) -> str:
    match event:
        case Compacted():
            return _compacted(event)
        case BranchMoved():
            left = "".join(f"\n  ! not committed: {name}" for name in event.left_out)
            return f"· branch {event.branch} {event.action}, at {event.commit[:12]}{left}"
        case RewindStarted():
            return f"· putting files back as they were after event {event.to_seq}"
        case Undone():
            what = {"conversation": "everything said", "files": "every change of files", "both": "everything"}
            return f"· undone: {what[event.scope]} after event {event.to_seq}"


def _speed(event: SpendSettled) -> str:
    if event.speed is None:
        return ""
    usage, speed = event.usage, event.speed
    read = f"{usage.input_tokens:,} tokens read at {speed.input_per_s:.0f}/s"
    return f"  ({read}, {usage.output_tokens:,} written at {speed.output_per_s:.0f}/s)"


def _in_time(wait_s: float) -> str:
    return f" in {wait_s:.0f} s" if wait_s >= 1 else " at once"


def _warned(event: BudgetWarned) -> str:
    if event.unit == "usd":
        amount = f"{money(event.spent)} of {money(event.cap)}"
    else:
        amount = f"{event.spent:,.0f} of {event.cap:,.0f} tokens"
    return f"! {event.percent} % of the {event.scope}'s budget is spent: {amount}"


def _compacted(event: Compacted) -> str:
    if not event.summary and not event.stubbed:
        return "· history is whole again" if event.keep_from_seq == 1 else "· a fresh history"
    by = f" by {event.model}" if event.model else ""
    stubs = f", {len(event.stubbed)} long ones left out" if event.stubbed else ""
    why = f" ({event.reason})" if event.reason else ""
    return (
        f"· history compacted{by}{why}: {event.tokens_before:,} → {event.tokens_after:,} tokens;"
        f" kept from event {event.keep_from_seq} on{stubs}"
    )


def ended_line(event: TurnEnded) -> str:
    cost = f"{event.steps} steps, {event.usage.total_tokens:,} tokens, {money(event.cost_usd)}"
    detail = f": {event.detail}" if event.detail and event.ending != "done" else ""
    remedy = f" {event.remedy}" if event.remedy else ""
    return f"■ {event.ending}{detail}{remedy} ({cost})"


def call_line(call: CallAsked) -> str:
    """A call on one line, with its most telling argument when there is one."""
    try:
        known = msgspec.json.decode(call.arguments, type=_Telling)
    except msgspec.MsgspecError:
        known = _Telling()
    shown = known.command or known.path or call.arguments
    first, *rest = shown.splitlines() or [""]
    more = " …" if rest or len(first) > _MAX_ARGUMENTS else ""
    return f"→ {call.name} {first[:_MAX_ARGUMENTS]}{more}"


class _Telling(msgspec.Struct, frozen=True):
    command: str = ""
    path: str = ""


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


def _changed(event: FilesChanged, *, whole: bool) -> str:
    lines = [f"  {plain_name(change_line(change))}" for change in event.changes]
    if not whole and len(lines) > _MAX_LINES:
        lines = [*lines[: _MAX_LINES - 1], f"  … {len(lines) - _MAX_LINES + 1} more files …"]
    return "\n".join([*lines, *(f"  ! not covered: {note}" for note in event.not_covered)])


def _ended(event: CallEnded, *, whole: bool) -> str:
    mark = "✓" if event.outcome == "ok" else f"✗ {event.outcome}:"
    lines = event.output.splitlines() or ["(no output)"]
    if not whole and len(lines) > _MAX_LINES:
        half = _MAX_LINES // 2
        lines = [*lines[:half], f"… {len(lines) - 2 * half} more lines …", *lines[-half:]]
    flags = [f"⚠ this reads like orders to the model: “{quote}”" for quote in event.suspicious]
    return f"  {mark} " + "\n    ".join([*lines, *flags])

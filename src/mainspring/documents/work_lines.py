"""Notes, and what helps a model with its work, as lines for people; a part of the table in `lines`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.documents.goal_lines import flags
from mainspring.events import (
    PRIMING_SOURCE,
    RESUMED_SOURCE,
    ArtifactSaved,
    ChangesChecked,
    DocsEnded,
    DocsStarted,
    Event,
    HookEnded,
    HookStarted,
    NoteAdded,
    PageDrafted,
    PageJudged,
    PieceDrafted,
    RollbackOffered,
    SuiteEnded,
    SuiteStarted,
    WorkspaceKept,
    WorkspaceMoved,
)
from mainspring.events.counts import plural

_MAX_NAMES = 5


def _note_added(event: NoteAdded) -> str:
    whose = "" if event.source == RESUMED_SOURCE else f"note from {event.source}: "
    return "\n".join([f"· {whose}{event.text}", *flags(event.suspicious)])


def _workspace_kept(event: WorkspaceKept) -> str:  # noqa: ARG001
    return ""


def _workspace_moved(event: WorkspaceMoved) -> str:
    what = "made" if event.is_new else "brought up to date"
    lines = [f"· workspace {what} on {event.host}: {plural(event.files, 'file')}"]
    lines += [f"  ! left as it is: {each}" for each in event.left]
    return "\n".join([*lines, *(f"  ! not there: {each}" for each in event.lost)])


def _note_shortened(event: NoteAdded) -> str:
    if event.source != PRIMING_SOURCE:
        return _note_added(event)
    names = [
        f"{item.path} (lines {item.first_line}-{item.last_line})" if item.first_line else item.path
        for item in event.files
    ]
    shown = [f"· shown to the model at its start: {', '.join(names)}"] if names else []
    return "\n".join([*shown, *flags(event.suspicious)])


def _suite_started(event: SuiteStarted) -> str:
    return f"· testing by itself ({event.cause}): {event.command}"


def _suite_ended(event: SuiteEnded) -> str:
    what = {"slow": "too slow, so not again", "unusable": "does not run here, so not again"}
    code = "" if event.exit_code is None else f" (exit code {event.exit_code})"
    if event.is_known:
        code = ", known from an earlier run on the same files"
    lines = [f"  tests: {what.get(event.outcome, event.outcome)}{code}"]
    for why, names in (
        ("passed before this turn", event.regressions),
        ("flaky, not counted", event.flaky),
        ("passed before this turn, and no longer run", event.missing),
    ):
        lines += [f"  {why}: {_some(names)}"] if names else []
    if event.lines:
        reached = f"{event.reached:,} of {event.lines:,} lines ({100 * event.reached / event.lines:.1f} %)"
        lines.append(f"  tests run {reached}")
    return "\n".join(lines)


def _rollback_offered(event: RollbackOffered) -> str:
    count = plural(len(event.tests), "test")
    return (
        f"! {count} that passed before this turn, and fail after it: {_some(event.tests)}\n"
        "  Nothing was taken back. `mainspring undo` takes back the turn and its changes of files."
    )


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _changes_checked(event: ChangesChecked) -> str:
    """What is wrong is in the note that follows; here that it was looked at."""
    found = [each for file in event.files for each in file.findings]
    if not found:
        return ""
    errors = sum(each.severity == "error" for each in found)
    warnings = plural(len(found) - errors, "warning")
    return f"  checks: {plural(errors, 'error')}, {warnings} ({plural(len(event.files), 'file')})"


def _artifact_saved(event: ArtifactSaved) -> str:
    note = f": {event.note}" if event.note else ""
    return f"· saved {event.name} ({event.blob.size:,} bytes, {event.blob.sha256[:12]}){note}"


def _hook_started(event: HookStarted) -> str:
    about = f" {event.tool}" if event.tool else ""
    return f"· hook {event.event}{about}: {event.command}"


def _hook_ended(event: HookEnded) -> str:
    verdict = "failed, so refused" if event.verdict == "failed" and event.is_refusing else event.verdict
    why = f": {event.reason}" if event.reason else ""
    message = f"\n  {event.message}" if event.message else ""
    return f"  hook {verdict} after {event.duration_s:.2f} s{why}{message}"


def _docs_started(event: DocsStarted) -> str:
    left = "".join(f"\n  ! nothing is sent of {each}" for each in event.left_out)
    return f"· pages about {plural(event.files, 'file')} for {event.output}{left}"


def _piece_drafted(event: PieceDrafted) -> str:
    problem = f": {event.problem}" if event.problem else ""
    return f"  {event.path}:{event.first_line}-{event.last_line} drafted{problem}"


def _page_drafted(event: PageDrafted) -> str:
    lines = [f"· page of {event.path}, draft {event.attempt}"]
    lines += [f"  ! {problem}" for problem in event.problems]
    lines += [f"  taken out: {each}" for each in event.dropped]
    return "\n".join(lines)


def _page_judged(event: PageJudged) -> str:
    verdict = {"person": "needs a person", "again": "drafted again"}.get(event.verdict, event.verdict)
    scores = ", ".join(f"{each.name} {each.score}" for each in event.scores)
    why = f": {event.why}" if event.why else ""
    return f"· page of {event.path} {verdict} (by {event.by}{f'; {scores}' if scores else ''}){why}"


def _docs_ended(event: DocsEnded) -> str:
    line = f"■ pages: {event.approved} approved, {event.rejected} rejected, {event.person} need a person"
    return f"{line}; {event.undone} not done: {event.why}" if event.undone else line


WORK_LINES: dict[type[Event], Callable[[Any], str]] = {
    NoteAdded: _note_added,
    ArtifactSaved: _artifact_saved,
    WorkspaceKept: _workspace_kept,
    WorkspaceMoved: _workspace_moved,
    ChangesChecked: _changes_checked,
    SuiteStarted: _suite_started,
    SuiteEnded: _suite_ended,
    RollbackOffered: _rollback_offered,
    HookStarted: _hook_started,
    HookEnded: _hook_ended,
    DocsStarted: _docs_started,
    PieceDrafted: _piece_drafted,
    PageDrafted: _page_drafted,
    PageJudged: _page_judged,
    DocsEnded: _docs_ended,
}


def _hook_shortened(event: HookEnded) -> str:
    """Hooks that have nothing against anything are not worth a line."""
    if event.verdict in ("passed", "changed") and not event.reason:
        return f"· hook: {event.message}" if event.message else ""
    return _hook_ended(event)


WORK_SHORTENED: dict[type[Event], Callable[[Any], str]] = {
    NoteAdded: _note_shortened,
    HookStarted: lambda _: "",
    HookEnded: _hook_shortened,
}

"""Sessions that work without turns of their own: a farm is at work from its plan to its choice, tasks of a
person until none is left, pages about source files until each has its verdict. Attempts in a session, and
tasks of a call, belong to its own turns. Pure."""

from __future__ import annotations

from mainspring.events import (
    AttemptsEnded,
    AttemptsStarted,
    DocsEnded,
    DocsStarted,
    Event,
    TasksEnded,
    TasksStarted,
)

FAMILY_KINDS = (AttemptsStarted, AttemptsEnded, TasksStarted, TasksEnded, DocsStarted, DocsEnded)
LINE_LENGTH = 200
DOCS_TITLE = "pages for "
"""How the title begins of a session that writes pages about source files."""


def family_title(event: Event) -> str:
    """What such work is called that begins here; empty when none does."""
    match event:
        case AttemptsStarted(base=base, task=task) if base:
            return task.partition("\n")[0] or base
        case TasksStarted(call="", title=title):
            return title or "tasks"
        case DocsStarted(output=output):
            return f"{DOCS_TITLE}{output}"
        case _:
            return ""


def family_end(event: Event) -> tuple[str, bool] | None:
    """What came of such work that ends here, and whether all of it is done; None when none ends."""
    match event:
        case AttemptsEnded(end_seqs=end_seqs) if not any(end_seqs):
            return f"attempt {event.kept}: {event.reason}", event.is_passed
        case TasksEnded(call="", done=done, failed=failed, blocked=blocked):
            missing = (*failed, *blocked)
            line = f"done: {', '.join(done) or 'none'}"
            return f"{line}; not done: {', '.join(missing)}" if missing else line, not missing
        case DocsEnded():
            line = f"{event.approved} approved, {event.rejected} rejected, {event.person} for a person"
            missing = f"; {event.undone} not done: {event.why}" if event.undone else ""
            return f"{line}{missing}", not event.undone
        case _:
            return None


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:LINE_LENGTH]


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:LINE_LENGTH]

"""Questions and their answers as lines for people; a part of the table in `lines`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.approvals import why_asked
from mainspring.documents.call_lines import MAX_ARGUMENTS
from mainspring.events import ApprovalAdded, ApprovalAsked, ApprovalGiven, Event
from mainspring.events.values import Decision, Scope
from mainspring.waits.describe import clock

_DECIDED: dict[Decision, str] = {
    "allow": "allowed",
    "reject": "refused",
    "stop": "stopped",
    "abandon": "withdrawn",
    "expire": "not answered in time, refused",
}
_REACHES: dict[Scope, str] = {
    "once": "",
    "session": " in this session",
    "project": " in this project",
    "forever": " for ever",
}


def _approval_asked(event: ApprovalAsked) -> str:
    scripts = "".join(f"\n  {each.path}:\n{each.diff or each.text}".rstrip() for each in event.scripts)
    return f"? {event.tool} needs approval: {why_asked(event)}\n  {event.arguments[:MAX_ARGUMENTS]}{scripts}"


def _approval_given(event: ApprovalGiven) -> str:
    feedback = f": {event.feedback}" if event.feedback else ""
    edited = "" if event.edited_arguments is None else ", edited,"
    people = " and ".join(event.agreed) or event.by
    return f"? {_DECIDED[event.decision]}{edited}{_reach(event)} by {people}{feedback}"


def _approval_added(event: ApprovalAdded) -> str:
    feedback = f": {event.feedback}" if event.feedback else ""
    return f"? {event.person} agrees{_reach(event)}; others must agree too{feedback}"


def _reach(event: ApprovalGiven | ApprovalAdded) -> str:
    reach = _REACHES[event.scope]
    reach += f" {event.pattern}" if event.pattern else ""
    return reach + (f" until {clock(event.expires_us)[:16]}" if event.expires_us else "")


APPROVAL_LINES: dict[type[Event], Callable[[Any], str]] = {
    ApprovalAsked: _approval_asked,
    ApprovalAdded: _approval_added,
    ApprovalGiven: _approval_given,
}

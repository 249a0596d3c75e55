"""Which events a person is told of, and in which words. A fold over the events of one session; no I/O."""

from __future__ import annotations

import msgspec

from mainspring.documents.lines import as_text
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    BudgetWarned,
    CallEnded,
    Event,
    GoalEnded,
    GoalSet,
    Recorded,
    TurnEnded,
    UserSaid,
)
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.notify.settings import NoticeKind

TOOL = "notify"
_MAX_CHARS = 600
_WARNED_PERCENT = 80
_TITLES: dict[NoticeKind, str] = {
    "question": "needs an answer",
    "ended": "has ended",
    "failed": "has failed",
    "budget": "has spent most of its budget",
    "message": "says",
}


class SessionNotice(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell. `call` is what a question is about."""

    kind: NoticeKind
    seq: int
    at_us: int
    text: str
    call: str = ""


class Withdrawn(msgspec.Struct, frozen=True):
    """Questions that need no answer any more: that of one call, or all."""

    call: str = ""


class _Said(msgspec.Struct, frozen=True):
    text: str = ""


class Notices:
    """What events mean for somebody who does not look, one after the other."""

    def __init__(self, *, has_goal: bool) -> None:
        self._has_goal = has_goal
        self._said: dict[str, str] = {}

    def take(self, recorded: Recorded) -> SessionNotice | Withdrawn | None:
        event = recorded.event
        match event:
            case GoalSet():
                self._has_goal = True
            case AssistantSaid():
                self._said |= {each.call: each.arguments for each in event.calls if each.name == TOOL}
            case ApprovalGiven(call=call):
                return Withdrawn(call)
            case UserSaid():
                return Withdrawn()
            case CallEnded(call=call, outcome="ok") if call in self._said:
                return self._notice(recorded, "message", _message(self._said.pop(call)))
            case ApprovalAsked(call=call):
                return self._notice(recorded, "question", call=call)
            case _:
                if kind := _kind(event, has_goal=self._has_goal):
                    return self._notice(recorded, kind)
        return None

    def _notice(self, recorded: Recorded, kind: NoticeKind, text: str = "", call: str = "") -> SessionNotice:
        text = text or as_text(recorded.event)
        return SessionNotice(
            kind=kind, seq=recorded.seq, at_us=recorded.time_us, text=shortened(text), call=call
        )


def title_of(kind: NoticeKind, folder: str, session: str) -> str:
    return f"{folder or session} {_TITLES[kind]}"


def shortened(text: str, most: int = _MAX_CHARS) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _kind(event: Event, *, has_goal: bool) -> NoticeKind | None:
    match event:
        case TurnEnded(ending="done") if not has_goal:
            return "ended"
        case TurnEnded(ending="failed" | "budget" | "limit") if not has_goal:
            return "failed"
        case GoalEnded(ending="done"):
            return "ended"
        case GoalEnded(ending="blocked"):
            return "question"
        case GoalEnded(ending=ending) if ending != "stopped":
            return "failed"
        case BudgetWarned(percent=percent) if percent >= _WARNED_PERCENT:
            return "budget"
        case _:
            return None


def _message(arguments: str) -> str:
    try:
        return msgspec.json.decode(arguments, type=_Said).text
    except DECODE_ERRORS:
        return arguments

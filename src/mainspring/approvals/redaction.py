"""Events without secrets: what every event passes before it is recorded, so that no path can forget it.

Arguments are redacted after decoding, so that they expand to exactly what they were; text that is not JSON is
redacted as it stands. Reasoning that its provider has sealed is left alone: changed, it would be refused.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from mainspring.approvals.secrets import Vault
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallAsked,
    CallEnded,
    CheckEnded,
    Claim,
    ClaimChecked,
    ClaimsRead,
    CommandAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    Condition,
    ConditionMet,
    Crashed,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationEnded,
    MeasurementsTaken,
    NoteAdded,
    OnCommand,
    OnFile,
    Part,
    PlanSet,
    ProcessEnded,
    ProcessStarted,
    PromptSet,
    Remembered,
    RequestFailed,
    Text,
    Thinking,
    TurnEnded,
    UserSaid,
    WaitEnded,
    WaitStarted,
    WorkFinished,
)

_E = TypeVar("_E", bound=Event)

_TEXTS: dict[type[Event], tuple[str, ...]] = {
    PromptSet: ("system",),
    UserSaid: ("text",),
    NoteAdded: ("text",),
    RequestFailed: ("message",),
    ApprovalAsked: ("reason",),
    ApprovalGiven: ("feedback", "pattern"),
    CallEnded: ("output",),
    ProcessStarted: ("command",),
    CommandStarted: ("reason",),
    CommandEnded: ("reason",),
    ProcessEnded: ("reason",),
    Remembered: ("text",),
    WorkFinished: ("summary",),
    Compacted: ("summary",),
    Crashed: ("traceback",),
    TurnEnded: ("detail",),
    WaitEnded: ("summary",),
    GoalSet: ("text",),
    GoalPaused: ("reason",),
    GoalEnded: ("reason",),
    IterationEnded: ("detail",),
    CheckEnded: ("detail",),
    ClaimChecked: ("detail",),
    WaitStarted: ("reason",),
    ConditionMet: ("detail",),
}


_LISTS: dict[type[Event], str] = {CommandAsked: "argv", CallEnded: "suspicious", MeasurementsTaken: "flags"}


def redacted(event: _E, vault: Vault) -> _E:
    """The event as it may be recorded."""
    changes: dict[str, object] = {
        name: vault.redact(getattr(event, name)) for name in _TEXTS.get(type(event), ())
    }
    match event:
        case AssistantSaid():
            changes["parts"] = tuple(_part(part, vault) for part in event.parts)
        case ApprovalAsked():
            changes["arguments"] = redacted_arguments(event.arguments, vault)
            # A pattern with a placeholder in it would match nothing: such a call is offered as it is.
            texts = [text for each in event.offers for text in (each.command, each.path, each.host)]
            changes["offers"] = event.offers if all(vault.redact(text) == text for text in texts) else ()
        case ApprovalGiven(edited_arguments=str(text)):
            changes["edited_arguments"] = redacted_arguments(text, vault)
        case PlanSet():
            changes["items"] = tuple(
                msgspec.structs.replace(item, text=vault.redact(item.text)) for item in event.items
            )
        case WorkFinished():
            changes["evidence"] = tuple(
                msgspec.structs.replace(each, claim=vault.redact(each.claim)) for each in event.evidence
            )
        case CommandAsked() | CallEnded() | MeasurementsTaken():
            name = _LISTS[type(event)]
            changes[name] = tuple(map(vault.redact, getattr(event, name)))
        case ClaimsRead():
            changes["claims"] = tuple(_claim(claim, vault) for claim in event.claims)
        case WaitStarted():
            changes["conditions"] = tuple(_condition(each, vault) for each in event.conditions)
        case _:
            pass
    is_changed = any(getattr(event, name) != value for name, value in changes.items())
    return msgspec.structs.replace(event, **changes) if is_changed else event


def _claim(claim: Claim, vault: Vault) -> Claim:
    texts = {name: vault.redact(getattr(claim, name)) for name in ("statement", "check", "note")}
    return msgspec.structs.replace(claim, **texts)


def redacted_arguments(text: str, vault: Vault) -> str:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return vault.redact(text)
    hidden = vault.redact_all(value)
    return text if hidden == value else msgspec.json.encode(hidden).decode()


def _condition(condition: Condition, vault: Vault) -> Condition:
    match condition:
        case OnCommand():
            return msgspec.structs.replace(condition, command=vault.redact(condition.command))
        case OnFile():
            hidden = {"path": vault.redact(condition.path), "pattern": vault.redact(condition.pattern)}
            return msgspec.structs.replace(condition, **hidden)
        case _:
            return condition


def _part(part: Part, vault: Vault) -> Part:
    match part:
        case Text():
            return msgspec.structs.replace(part, text=vault.redact(part.text))
        case Thinking():
            return part if part.opaque else msgspec.structs.replace(part, text=vault.redact(part.text))
        case CallAsked():
            return msgspec.structs.replace(part, arguments=redacted_arguments(part.arguments, vault))

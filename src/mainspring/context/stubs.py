"""What stands in the history for an event that is left out to save room: its size, and a handle to read it.

A handle is `event:` and the number of the event; the read tool takes it for a path. Pure: the same event
always gives the same stub.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    Event,
    NoteAdded,
    Part,
    Recorded,
    Text,
    UserSaid,
)
from mainspring.patterns import lazy_pattern

EVENT = "event:"

_SHOWN = 160
_LONG = 400
_HANDLE = lazy_pattern(r"event:([1-9][0-9]{0,17})")
_ENCODER = msgspec.json.Encoder(order="deterministic")


def handle_of(seq: int) -> str:
    return f"{EVENT}{seq}"


def seq_of(handle: str) -> int | None:
    """The number of the event that a handle names."""
    found = _HANDLE.fullmatch(handle.strip())
    return int(found[1]) if found else None


def stub(recorded: Recorded) -> Recorded:
    """The same event with what is long in it left out."""
    return msgspec.structs.replace(recorded, event=_stub(recorded.event, recorded.seq))


def text_of(event: Event) -> str:
    """What an event says, in full; what a handle is read as."""
    match event:
        case UserSaid() | NoteAdded():
            return event.text
        case CallEnded():
            return event.output
        case AssistantSaid():
            calls = (f"{call.name} {call.arguments}" for call in event.calls)
            return "\n".join(filter(None, (event.text, *calls)))
        case _:
            return ""


def size_of(event: Event) -> int:
    """How many characters an event puts into the history."""
    if isinstance(event, CallEnded):
        return len(event.output)
    if isinstance(event, AssistantSaid):
        return sum(
            [len(part.arguments if isinstance(part, CallAsked) else part.text) for part in event.parts]
        )
    return len(text_of(event))


def _stub(event: Event, seq: int) -> Event:
    replace = msgspec.structs.replace
    match event:
        case UserSaid():
            return replace(event, text=_left_out(event.text, seq, "message"), media=())
        case NoteAdded():
            return replace(event, text=_left_out(event.text, seq, "note"))
        case CallEnded():
            return replace(event, output=_left_out(event.output, seq, "output"), media=())
        case AssistantSaid():
            return replace(event, parts=tuple(_shortened(part, seq) for part in event.parts))
        case _:
            return event


def _left_out(text: str, seq: int, what: str) -> str:
    first = text.lstrip()[:_SHOWN].partition("\n")[0].rstrip()
    return (
        f"{first} […]\n[The rest of this {what} is left out to save room: {len(text):,} characters in all."
        f" `read` pages through {handle_of(seq)}.]"
    )


def _shortened(part: Part, seq: int) -> Part:
    match part:
        case Text() if len(part.text) > _LONG:
            return Text(text=_left_out(part.text, seq, "message"))
        case CallAsked() if len(part.arguments) > _LONG:
            return msgspec.structs.replace(part, arguments=_short_arguments(part.arguments, seq))
        case _:
            return part


def _short_arguments(arguments: str, seq: int) -> str:
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        given = {"arguments": arguments}
    short = {name: _short_value(value, seq) for name, value in cast("dict[str, Any]", given).items()}
    return _ENCODER.encode(short).decode()


def _short_value(value: object, seq: int) -> object:
    size = len(value) if isinstance(value, str) else len(_ENCODER.encode(value))
    return f"[{size:,} characters left out, handle {handle_of(seq)}]" if size > _SHOWN else value

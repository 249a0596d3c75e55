"""Plain values out of what was recorded: arguments that can be compared, and what a call is about."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mainspring.events import ShownFile


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value


_DECODER = msgspec.json.Decoder(float_hook=_number)
_ENCODER = msgspec.json.Encoder(order="deterministic")


def canonical(arguments: str) -> str:
    """Arguments as a JSON value: spaces, the order of keys and `1.0` for `1` make no difference."""
    try:
        return _ENCODER.encode(_DECODER.decode(arguments or "{}")).decode()
    except (msgspec.DecodeError, RecursionError, OverflowError):
        return arguments


class ShownText(msgspec.Struct, frozen=True, kw_only=True):
    """A text in the history: the result of the call with this `number`, or a note that shows `files`."""

    text: str
    tool: str = ""
    arguments: str = ""
    number: int = 0
    files: tuple[ShownFile, ...] = ()


class Touched(msgspec.Struct, frozen=True):
    """What a call is about, by the usual names of its arguments."""

    paths: tuple[str, ...] = ()
    command: str = ""


def touched_by(arguments: str) -> Touched:
    try:
        given = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return Touched()
    if not isinstance(given, dict):
        return Touched()
    known = cast("dict[str, Any]", given)
    several, command = known.get("paths"), known.get("command")
    named = [known.get("path"), *(cast("list[object]", several) if isinstance(several, list) else [])]
    return Touched(
        paths=tuple(path for path in named if isinstance(path, str) and path),
        command=command if isinstance(command, str) else "",
    )

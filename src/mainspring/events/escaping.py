"""Characters that could steer a terminal or deceive the eye, JSON without them, halves of them. Pure."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from mainspring.patterns import lazy_pattern

_S = TypeVar("_S", bound=msgspec.Struct)

# Control characters but tab and newline, C1 controls, and the marks that reorder or hide text.
UNSAFE = lazy_pattern(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def whole_characters(text: str) -> str:
    """Half a character, as file names and command lines can have, cannot be written: it becomes a question
    mark."""
    return text.encode("utf-8", "replace").decode()


def with_whole_characters(value: _S) -> _S:
    """A struct with its texts so, and those of the structs in it."""
    changed: dict[str, Any] = {}
    for name in value.__struct_fields__:
        match getattr(value, name):
            case str() as text:
                changed[name] = whole_characters(text)
            case msgspec.Struct() as inner:
                changed[name] = with_whole_characters(inner)
            case _:
                pass
    return msgspec.structs.replace(value, **changed)


def escape_json(data: bytes) -> bytes:
    """The same JSON with such characters as `\\u....`; they can stand only within its texts."""
    if data.isascii() and b"\x7f" not in data:
        return data
    text = data.decode()
    return data if text.isprintable() else UNSAFE.sub(_escaped, text).encode()


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

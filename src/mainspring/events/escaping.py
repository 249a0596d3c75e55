"""Characters that could steer a terminal or deceive the eye, and JSON without them. Pure."""

from __future__ import annotations

import re

from mainspring.patterns import lazy_pattern

# Control characters but tab and newline, C1 controls, and the marks that reorder or hide text.
UNSAFE = lazy_pattern(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def escape_json(data: bytes) -> bytes:
    """The same JSON with such characters as `\\u....`; they can stand only within its texts."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return UNSAFE.sub(_escaped, data.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

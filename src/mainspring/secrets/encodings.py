"""The forms in which tools print a value: quoted, in a URL, as base64 or hexadecimal digits. Pure."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, quote_plus

MIN_DIGITS = 10
"""No form in base64 or hexadecimal is shorter, so that none is found by chance."""

DIGIT_RUN = re.compile(rf"[A-Za-z0-9+/_-]{{{MIN_DIGITS},}}")
"""Where such a form can stand in a text."""

_LOWER_PERCENT = re.compile(r"%[0-9A-F]{2}")
_DROPPED_DIGITS = (0, 2, 3)
"""How many digits of base64 also depend on the bytes before a value, by how many share its group."""


def written_forms(value: str) -> tuple[str, ...]:
    """A value as it is, within a JSON text, and within a URL."""
    raw = _bytes(value)
    quoted = (quote(raw, safe=""), quote(raw), quote_plus(raw))
    lowered = (_LOWER_PERCENT.sub(lambda found: found[0].lower(), each) for each in quoted)
    in_json = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    return tuple(dict.fromkeys((value, *in_json, *quoted, *lowered)))


def digit_forms(value: str) -> tuple[str, ...]:
    """A value in base64, of both alphabets and wherever it begins in a group of three bytes, and in
    hexadecimal digits. What also depends on the bytes around it is left out."""
    raw = _bytes(value)
    found = [base64.b64encode(raw).decode().rstrip("="), raw.hex(), raw.hex().upper()]
    for before, dropped in enumerate(_DROPPED_DIGITS):
        whole_digits = (before + len(raw)) * 8 // 6
        found.append(base64.b64encode(bytes(before) + raw).decode()[dropped:whole_digits])
    found += [each.replace("+", "-").replace("/", "_") for each in found]
    return tuple(dict.fromkeys(each for each in found if len(each) >= MIN_DIGITS))


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")

"""The forms in which tools print a value: quoted, in a URL or page, as base64 or hexadecimal digits. Pure."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Collection, Iterator
from importlib import import_module
from urllib.parse import quote, quote_plus

from mainspring.patterns import lazy_pattern

MIN_DIGITS = 10
"""No form in base64 or hexadecimal is shorter, so that none is found by chance."""

DIGIT_RUN = lazy_pattern(rf"[A-Za-z0-9+/_-]{{{MIN_DIGITS},}}")
"""Where such a form can stand in a text."""

_DIGITS = string.ascii_letters + string.digits + "+/_-"
_DIGIT = "[A-Za-z0-9+/_-]"
_LINE_BREAK = r"(?:\\r\\n|\\n|\r\n|\n)[ \t]*"
_BREAK_BEFORE_DIGIT = lazy_pattern(rf"{_LINE_BREAK}(?={_DIGIT})")
_LINES = lazy_pattern(rf"{_DIGIT}+(?:{_LINE_BREAK}{_DIGIT}+)*")
_LAST_LINES = lazy_pattern(rf"[ \t]*\n?\r?{_DIGIT}*(?:[ \t]*\n\r?{_DIGIT}+)*")  # read backwards
_LOWER_PERCENT = lazy_pattern(r"%[0-9A-F]{2}")
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_IN_PAGES = _IN_TEXT | str.maketrans({'"': "&quot;", "'": "&#x27;"})
_DROPPED_DIGITS = (0, 2, 3)
"""How many digits of base64 also depend on the bytes before a value, by how many share its group."""


def written_forms(value: str) -> tuple[str, ...]:
    """A value as it is, within a JSON text, within a page, and within a URL: also all of it in percents, and
    the base64 of it."""
    raw = _bytes(value)
    in_base64 = [quote(each, safe="") for each in digit_forms(value)]
    quoted = (quote(raw, safe=""), quote(raw), quote_plus(raw), "".join(f"%{byte:02X}" for byte in raw))
    quoted += tuple(each for each in in_base64 if "%" in each)
    lowered = (_LOWER_PERCENT.sub(lambda found: found[0].lower(), each) for each in quoted)
    json = import_module("json")
    in_json = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    in_page = (value.translate(_IN_PAGES), value.translate(_IN_TEXT), in_json[0].replace("/", r"\/"))
    return tuple(dict.fromkeys((value, *in_json, *in_page, *quoted, *lowered)))


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


def wrapped_forms(text: str, digits: Collection[str]) -> list[tuple[str, str]]:
    """The forms in digits that a text holds broken into lines, as `base64` does, and as they are there."""
    if not digits or not ("\n" in text or "\\n" in text):
        return []
    joined = " ".join(re.sub(_LINE_BREAK, "", lines) for lines in _lines_of_digits(text, digits))
    return [
        (form, found[0])
        for form in digits
        if form in joined
        for found in re.finditer(f"(?:{_LINE_BREAK})?".join(map(re.escape, form)), text)
        if found[0] != form
    ]


def _lines_of_digits(text: str, digits: Collection[str]) -> Iterator[str]:
    """Digits at the end of a line, and the lines after it that hold nothing else."""
    end, longest = 0, max(map(len, digits))
    for found in _BREAK_BEFORE_DIGIT.finditer(text):
        at = found.start()
        line = text[max(end, at - longest) : at]
        begun = at - (len(line) - len(line.rstrip(_DIGITS)))
        if end <= begun < at and (lines := _LINES.match(text, begun)):
            end = lines.end()
            yield lines[0]


def last_digits(text: str, longest: int) -> list[int]:
    """The places of the digits in the last lines of a text that hold nothing else, enough for a form of this
    length to begin in them."""
    found = _LAST_LINES.match(text[-4 * longest :][::-1])
    start = len(text) - (found.end() if found else 0)
    return [at for at in range(start, len(text)) if not text[at].isspace()]


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")

"""JSON as small models write it: line breaks and quotes that are not escaped inside strings, commas at the
end, single, curly and triple quotes, names without quotes, comments, doubled braces, Python's words for true,
false and null.

What is JSON is read as JSON. A quote ends a string where what follows can follow a string. A string that does
not end is an error: half of what somebody meant must never be taken for the whole. Pure.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mainspring.patterns import lazy_pattern

_MAX_DEPTH = 50
_SPACE = lazy_pattern(r"(?:\s|//[^\n]*(?:\n|\Z)|#[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_BARE_NAME = lazy_pattern(r"[A-Za-z_]\w*(?=\s*:)")
_LONG = lazy_pattern(r"""(\"{3}|'{3}|`)(?!["'`])(.*?)\1(?=\s*[,}\]])""", re.DOTALL)
_CURLY_ENDS = {"“": "”", "„": "“”", "‘": "’", "”": "”"}
_NUMBER = lazy_pattern(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_WORD = lazy_pattern("|".join(_WORDS))
_ESCAPE = lazy_pattern(r'(?:\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]')
_AFTER_STRING = lazy_pattern(r"""\s*(?:[}\]:]|\Z|,\s*(?:["'{\[}\]\d-]|true|false|null|\Z))""")
_AFTER_VALUE = lazy_pattern(
    r"""\s*(?:[}\]]|\Z|,\s*(?://[^\n]*\n\s*)?(?:["'“„‘][\w -]+["'”“’]\s*:|[}\]]|\Z))"""
)
_AFTER_BARE = lazy_pattern(r"\s*(?:[}\]]|\Z|,\s*(?:\w+\s*:|[}\]]|\Z))")


def loads(text: str) -> Any:
    """The value of a text; raises `ValueError` when it is none, or more than one."""
    value, rest = read(text, is_closed=True)
    if rest.strip():
        raise ValueError(f"more than one value: {rest.strip()[:50]!r}")
    return value


def read(text: str, *, is_closed: bool = False) -> tuple[Any, str]:
    """The value that a text begins with, and the rest; raises `ValueError` when there is none. Unless it must
    be `is_closed`, the last brackets may be missing."""
    try:
        return msgspec.json.decode(text), ""
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        if text.lstrip().startswith("{{"):  # as in a template of Python
            text = text.replace("{{", "{").replace("}}", "}")
        reader = _Reader(text, is_closed=is_closed)
        return reader.value(0), text[reader.at :]


class _Reader:
    def __init__(self, text: str, *, is_closed: bool) -> None:
        self._text = text
        self._is_closed = is_closed
        self._has_bare_names = False
        self.at = 0

    def value(self, depth: int, *, is_field: bool = False) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        self._skip()
        match self._text[self.at : self.at + 1]:
            case "{":
                return self._object(depth)
            case "[":
                return self._list(depth)
            case '"' | "'" | "`" | "“" | "„" | "‘":
                return self._text_value(_AFTER_VALUE if is_field else _AFTER_STRING)
            case _:
                return self._plain()

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        while not self._ends("}"):
            key = self._key()
            self._skip()
            if self._text[self.at : self.at + 1] != ":":
                raise ValueError(f"no value for {key!r}")
            self.at += 1
            found[key] = self.value(depth + 1, is_field=True)
        return found

    def _list(self, depth: int) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while not self._ends("]"):
            found.append(self.value(depth + 1))
        return found

    def _ends(self, bracket: str) -> bool:
        """Whether a list or an object ends here, also at the end of the text; skips a comma."""
        self._skip()
        if self._text[self.at : self.at + 1] == ",":
            self.at += 1
            self._skip()
        if self.at >= len(self._text):
            if self._is_closed:
                raise ValueError(f"it ends before {bracket!r}")
            return True
        if self._text[self.at] == bracket:
            self.at += 1
            return True
        return False

    def _key(self) -> str:
        if bare := _BARE_NAME.match(self._text, self.at):
            self.at, self._has_bare_names = bare.end(), True
            return bare[0]
        if self._text[self.at] not in "\"'“„‘”":
            raise ValueError(f"no field at {self.at}")
        return self._string(_AFTER_STRING)

    def _text_value(self, after: re.Pattern[str]) -> str:
        """A string, which may stand in triple quotes or in backticks: with real line breaks these are code
        as it is, whose escapes are its own."""
        if long := _LONG.match(self._text, self.at):
            self.at = long.end()
            return long[2] if "\n" in long[2] else unescaped(long[2])
        if self._text[self.at] == "`":
            raise ValueError("a text does not end")
        return self._string(_AFTER_BARE if self._has_bare_names else after)

    def _string(self, after: re.Pattern[str]) -> str:
        quote, start = self._text[self.at], self.at + 1
        quote = _CURLY_ENDS.get(quote, quote)
        end = start
        while end < len(self._text):
            if self._text[end] == "\\":
                end += 2
            elif self._text[end] in quote and after.match(self._text, end + 1):
                break
            else:
                end += 1
        else:
            raise ValueError("a text does not end")
        self.at = end + 1
        return unescaped(self._text[start:end])

    def _plain(self) -> Any:
        for pattern in (_NUMBER, _WORD):
            if found := pattern.match(self._text, self.at):
                self.at = found.end()
                return _WORDS[found[0]] if pattern is _WORD else msgspec.json.decode(found[0])
        raise ValueError(f"no value at {self.at}")

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self.at)
        self.at = found.end() if found else self.at


def unescaped(text: str) -> str:
    """A string's content; a backslash before anything that is no escape stands for itself."""
    pieces: list[str] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        sign = msgspec.json.decode(f'"{found[0]}"', type=str)  # raises for half a character
        pieces += [text[at : found.start()], sign]
        at = found.end()
    return "".join([*pieces, text[at:]])

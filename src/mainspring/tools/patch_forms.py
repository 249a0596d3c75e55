"""The lines of a unified diff from what models write in its place: in a fence, with CR LF, or in the form of
`*** Begin Patch`. Pure.
"""

from __future__ import annotations

import re

from mainspring.patterns import lazy_pattern
from mainspring.tools.text import with_lf

_FENCED = lazy_pattern(r"\s*```[^\n]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_OTHER = lazy_pattern(r"^\*\*\* (?:Update|Add|Delete) File: ", re.MULTILINE)
_FILE = lazy_pattern(r"\*\*\* (Update|Add|Delete) File: (.*?)\s*")
_MOVED = lazy_pattern(r"\*\*\* Move to: (.*?)\s*")


def plain_lines(text: str) -> list[str]:
    fenced = _FENCED.fullmatch(text)
    text = with_lf(fenced[1] if fenced else text)
    lines = text.removesuffix("\n").split("\n")
    return _unified(lines) if _OTHER.search(text) else lines


def _unified(lines: list[str]) -> list[str]:
    """The same changes as a unified diff."""
    put: list[str] = []
    for line in lines:
        if found := _FILE.fullmatch(line):
            put += _heads(found[1], found[2])
        elif (moved := _MOVED.fullmatch(line)) and put[-1:] and put[-1].startswith("+++ "):
            put[-1] = f"+++ b/{moved[1]}"
        elif not line.startswith("*** "):
            put.append(line)
    return put


def _heads(kind: str, path: str) -> list[str]:
    match kind:
        case "Add":
            return ["--- /dev/null", f"+++ b/{path}", "@@"]
        case "Delete":
            return [f"--- a/{path}", "+++ /dev/null"]
        case _:
            return [f"--- a/{path}", f"+++ b/{path}"]

"""What a model may have meant by a text that does not stand in a file: without the line numbers that it was
shown, without a fence around it, or without escapes that stayed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mainspring.models.loose_json import unescaped
from mainspring.patterns import lazy_pattern

_NUMBERED = lazy_pattern(r"[ \t]*(\d+)(?:\t|→|[ \t]*\|[ \t]?|:[ \t]?)(.*)", re.DOTALL)
_FENCED = lazy_pattern(r"\s*(`{3,}|~{3,})[^\n]*\n(.*?)\n?[ \t]*\1\s*", re.DOTALL)


def meant(old: str, new: str) -> Iterator[tuple[str, str, str]]:
    """Other old and new texts, and in what the given ones differ from them."""
    fenced = _FENCED.fullmatch(old)
    if fenced:
        inner = _FENCED.fullmatch(new)
        yield fenced[2], inner[2] if inner else new, "a fence around it"
    if bare := without_numbers(old):
        yield bare, without_numbers(new) or new, "line numbers"
    if "\\" in old and "\n" not in old:
        try:
            yield unescaped(old), unescaped(new), "escapes"
        except ValueError:
            return


def without_numbers(text: str) -> str:
    """The text without the number that each of its lines begins with, one more on each; empty when not all
    do."""
    lines = text.removesuffix("\n").split("\n")
    found = [_NUMBERED.fullmatch(line) for line in lines]
    numbers = [int(each[1]) for each in found if each]
    if len(numbers) < len(lines) or numbers != [*range(numbers[0], numbers[0] + len(lines))]:
        return ""
    ending = "\n" if text.endswith("\n") else ""
    return "\n".join(each[2] for each in found if each) + ending

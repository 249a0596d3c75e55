"""Where lines that a model remembers stand in a file, when they differ in white space alone, and text that
stands for what its writer left out.

A place counts only when it is the only one. Lines that come new take the indentation of the file. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mainspring.patterns import lazy_pattern

_BLANKS = lazy_pattern(r"[ \t]*")
_ELLIPSIS = lazy_pattern(r"(?:\.\.\.|…)")
_COMMENT = lazy_pattern(r"\s*(?:#|//|--|;|%|/\*|<!--|\{/\*)+\s*(.*?)\s*(?:\*/\}?|-->)?\s*")
_LEFT_OUT = lazy_pattern(
    r"(?:the )?(?:rest|remainder|remaining|existing|previous|other|same|unchanged|omitted)"
    r"(?: (?:of|the|your|this|code|file|class|function|functions|method|methods|script|module|implementation"
    r"|lines|content|logic|is|are|remains?|stays?|unchanged|same|as|before|omitted|here|goes|above|below|existing))*",
    re.IGNORECASE,
)


class Fit(msgspec.Struct, frozen=True):
    """The index of the first line, and in what the lines differ from those of the file ("" for nothing)."""

    start: int
    difference: str = ""


_LOOKS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", str),
    ("spaces at line ends", str.rstrip),
    ("indentation", str.strip),
)


def fits(lines: Sequence[str], wanted: Sequence[str], first: int = 0) -> list[Fit]:
    """The places where the lines stand, by the strictest look that finds any."""
    is_blank = not any(line.strip() for line in wanted)
    for difference, seen in _LOOKS[: 1 if is_blank else None]:
        have, need = [seen(line) for line in lines], [seen(line) for line in wanted]
        last = len(have) - len(need)
        found = [at for at in range(first, last + 1) if have[at : at + len(need)] == need]
        if found:
            return [Fit(at, difference) for at in found]
    return []


def indentation(wanted: Sequence[str], found: Sequence[str]) -> dict[str, str]:
    """What the indentation of each line is in the file."""
    pairs = zip(wanted, found, strict=True)
    return {_indent(line): _indent(there) for line, there in pairs if line.strip()}


def indented(line: str, known: Mapping[str, str]) -> str:
    """A new line with the indentation of the file: what is deeper than any known one keeps its rest."""
    indent = _indent(line)
    if not line.strip():
        return line
    base = max((each for each in known if indent.startswith(each)), key=len, default=None)
    if base is not None:
        return known[base] + indent[len(base) :] + line[len(indent) :]
    # Shallower than all: what the shallowest known one has too much or too little, this one has as well.
    shallowest = min(known, key=len)
    missing = len(known[shallowest]) - len(shallowest)
    if missing >= 0:
        return known[shallowest][:missing] + line
    return line[min(-missing, len(indent)) :]


def placeholder(new: str, old: str) -> str:
    """The first line of a new text that stands for text which was left out ("# ... rest unchanged"), and
    which the old text does not have; empty when there is none."""
    known = {line.strip() for line in old.splitlines()}
    added = (line.strip() for line in new.splitlines())
    return next((line for line in added if line not in known and _stands_for(line)), "")


def _stands_for(line: str) -> bool:
    comment = _COMMENT.fullmatch(line)
    said = comment[1] if comment else ""
    if not said:
        return False
    rest = " ".join(_ELLIPSIS.sub(" ", said).strip(" .()[]{}").split())
    return bool(_LEFT_OUT.fullmatch(rest)) if rest else bool(_ELLIPSIS.search(said))


def _indent(line: str) -> str:
    found = _BLANKS.match(line)
    return found[0] if found else ""

"""Where text that a model remembers stands in a file, when it differs in white space, or in signs that look
alike.

A place counts only when it is the only one. Lines that come new take the indentation of the file, and signs
that stay are those of the file. Pure.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mainspring.patterns import lazy_pattern
from mainspring.tools.text import lines_of

_BLANKS = lazy_pattern(r"[ \t]*")


class Fit(msgspec.Struct, frozen=True):
    """The index of the first line, and in what the lines differ from those of the file ("" for nothing)."""

    start: int
    difference: str = ""


_ALIKE = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2007\u202f\u2009\u3000", " "),
        **{chr(full): chr(full - 0xFEE0) for full in range(0xFF01, 0xFF5F)},
    }
)
LOOKING_ALIKE = "signs that look alike"
_MAX_MERGED = 4000
_NEAR_ENOUGH = 0.5
_MAX_LINES_COMPARED = 20_000
_MAX_COMPARED = 300
_MAX_NEAR = 40
_AROUND = 3
_MAX_PART, _LEAST_PART = 80, 5
_SHORT_FILE = 60
_MAX_SHOWN = 500


def alike(text: str) -> str:
    """The text in plain signs, each in place of one: quotes, dashes, spaces and full-width signs."""
    return text.translate(_ALIKE)


def with_signs_of(there: str, old: str, new: str) -> str:
    """The new text in which what it shares with the old one is as it is there: both are as long."""
    if len(there) != len(old) or max(len(old), len(new)) > _MAX_MERGED:
        return new
    steps = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return "".join(there[a:b] if kind == "equal" else new[c:d] for kind, a, b, c, d in steps)


def _plain(line: str) -> str:
    return alike(unicodedata.normalize("NFC", line)).strip()


_LOOKS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", str),
    ("spaces at line ends", str.rstrip),
    ("indentation", str.strip),
    (LOOKING_ALIKE, _plain),
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


def nearest(text: str, wanted: str) -> str:
    """The lines most like the wanted ones, with some around them, so that the model can correct itself; all
    lines of a short file."""
    lines, wanted_lines = lines_of(text), lines_of(wanted)
    if len(lines) <= _SHORT_FILE and len(text) <= _SHORT_FILE * 100:
        return f" The file has:\n{text}"
    key = max(wanted_lines, key=lambda line: len(line.strip()), default="")
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(key.strip()[:_MAX_COMPARED])
    best, best_ratio = -1, _NEAR_ENOUGH
    for index, line in enumerate(lines[:_MAX_LINES_COMPARED]):
        matcher.set_seq1(line.strip()[:_MAX_COMPARED])
        bounds = (matcher.real_quick_ratio(), matcher.quick_ratio())
        if min(bounds) > best_ratio and (ratio := matcher.ratio()) > best_ratio:
            best, best_ratio = index, ratio
    best = best if best >= 0 else _holding(text, key)
    if best < 0:
        return " Read the file again to see what it contains."
    at = max(best - wanted_lines.index(key), 0)
    first, last = max(at - _AROUND, 0), at + min(len(wanted_lines), _MAX_NEAR) + _AROUND
    shown = "\n".join(line[:_MAX_SHOWN] for line in lines[first:last])
    return f" The nearest text is here, from line {first + 1}:\n{shown}"


def _holding(text: str, line: str) -> int:
    """The index of the line that holds the longest part of another, which may be much shorter; -1 where none
    holds half of it."""
    line, place = line.strip()[:_MAX_PART], -1
    size = max(len(line) // 2, _LEAST_PART)
    while size <= len(line):
        parts = (line[start : start + size] for start in range(len(line) - size + 1))
        found = next((at for part in parts if (at := text.find(part)) >= 0), -1)
        if found < 0:
            break
        place, size = found, size + 1
    return text.count("\n", 0, place) if place >= 0 else -1


def _indent(line: str) -> str:
    found = _BLANKS.match(line)
    return found[0] if found else ""

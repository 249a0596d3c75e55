"""How wide text is on a terminal, where some characters take two cells. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prompt_toolkit.utils import get_cwidth

_WORDS = re.compile(r"\S+\s*")
_LEAST_ROOM = 12


def get_width(text: str) -> int:
    return len(text) if text.isascii() else get_cwidth(text)


def clipped(text: str, columns: int) -> str:
    """A text on one line of so many cells, with a mark where it was cut."""
    if get_width(text) <= columns:
        return text
    return next(iter(cut_to_width(text, max(columns - 1, 1))), "") + "…"


def clipped_name(text: str, columns: int) -> str:
    """As `clipped`, but of a path its end is kept, since files are known by that."""
    if "/" not in text or " " in text or get_width(text) <= columns:
        return clipped(text, columns)
    ends = (f"…{text[at:]}" for at, sign in enumerate(text) if sign == "/")
    return next((end for end in ends if get_width(end) <= columns), "") or clipped(
        text.rpartition("/")[2], columns
    )


def wrapped(text: str, columns: int) -> str:
    """Lines broken at words, each part as far in as its line."""
    return "\n".join(part for line in text.split("\n") for part in _broken(line, columns))


def _broken(line: str, columns: int) -> list[str]:
    if get_width(line) <= columns:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    parts, room = list[str](), columns - len(indent)
    if room < _LEAST_ROOM:
        return [line]
    part = ""
    for piece in _WORDS.findall(line.strip()):
        if part and get_width(part + piece.rstrip()) > room:
            parts.append(part.rstrip())
            part = ""
        *full, part = cut_to_width(part + piece, room) if get_width(piece.rstrip()) > room else [part + piece]
        parts += full
    return [f"{indent}{each}" for each in (*parts, part.rstrip()) if each]


def packed(items: Sequence[str], columns: int) -> list[str]:
    """Items beside each other as far as they fit, none of them broken."""
    lines = [""]
    for item in items:
        longer = f"{lines[-1]} · {item}" if lines[-1] else item
        if lines[-1] and get_width(longer) > columns:
            lines.append(item)
        else:
            lines[-1] = longer
    return lines


def cut_to_width(line: str, columns: int) -> list[str]:
    """A line in pieces that each fit into so many cells."""
    if line.isascii():
        return [line[at : at + columns] for at in range(0, len(line), columns)]
    pieces, piece, used = list[str](), "", 0
    for sign in line:
        wide = get_cwidth(sign)
        if piece and used + wide > columns:
            pieces.append(piece)
            piece, used = "", 0
        piece, used = piece + sign, used + wide
    return [*pieces, piece] if piece else pieces

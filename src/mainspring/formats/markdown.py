"""Markdown as the blocks that a DOCX and a PDF are made of: headings, lists, tables, code and paragraphs,
with bold, italic and code inside. What it does not know stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_HEADING = re.compile(r"(#{1,6}) +(.*)")
_ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)]) +(.*)")
_RULE = re.compile(r"\|?[\s:|-]*-[\s:|-]*")
_INLINE = re.compile(r"\*\*(.+?)\*\*|\*(.+?)\*|`(.+?)`")
Style = Literal["", "bold", "italic", "code"]
_STYLES: tuple[Style, ...] = ("bold", "italic", "code")


class Block(NamedTuple):
    kind: Literal["heading", "bullet", "number", "code", "table", "paragraph"]
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


def blocks(text: str) -> Iterator[Block]:
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("```"):
            end = next((n for n in range(at, len(lines)) if lines[n].startswith("```")), len(lines))
            yield Block("code", "\n".join(lines[at:end]))
            at = end + 1
        elif line.lstrip().startswith("|"):
            end = next(
                (n for n in range(at, len(lines)) if not lines[n].lstrip().startswith("|")), len(lines)
            )
            rows = [each.strip() for each in lines[at - 1 : end] if not _RULE.fullmatch(each.strip())]
            yield Block("table", rows=tuple(_cells(row) for row in rows))
            at = end
        elif line.strip() and not (block := _line(line)):
            end = next((n for n in range(at, len(lines)) if _ends(lines[n])), len(lines))
            yield Block("paragraph", " ".join(each.strip() for each in lines[at - 1 : end]))
            at = end
        elif line.strip() and (block := _line(line)):
            yield block


def pieces(text: str) -> Iterator[tuple[Style, str]]:
    """The parts of a line, each with how it looks."""
    at = 0
    for found in _INLINE.finditer(text):
        if found.start() > at:
            yield "", text[at : found.start()]
        which = found.lastindex or 1
        yield _STYLES[which - 1], found[which]
        at = found.end()
    if at < len(text):
        yield "", text[at:]


def _line(line: str) -> Block | None:
    if heading := _HEADING.fullmatch(line.rstrip()):
        return Block("heading", heading[2], len(heading[1]))
    if item := _ITEM.fullmatch(line.rstrip()):
        number = item[1][:-1]
        return Block("number", item[2], int(number)) if number else Block("bullet", item[2])
    return None


def _ends(line: str) -> bool:
    return not line.strip() or line.startswith("```") or line.lstrip().startswith("|") or bool(_line(line))


def _cells(row: str) -> tuple[str, ...]:
    inner = row.strip().removeprefix("|").removesuffix("|")
    return tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner))

"""A document as Markdown that also reads well in a terminal. Text from elsewhere is never taken for markup:
it is escaped in a line, and fenced where it has many.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from mainspring.documents.blocks import (
    Banner,
    Block,
    Collapsible,
    Heading,
    Items,
    Link,
    Mono,
    OutputBlock,
    Paragraph,
    Picture,
    Quote,
    Span,
    Spans,
    Table,
)
from mainspring.secrets.screen import plain

_MARKS = {"good": "✓ ", "bad": "✗ ", "doubt": "? ", "quiet": "", "": ""}
# What begins something within a line; what only does so at its start is for `_STARTS`.
_SPECIAL = re.compile(r"[\\`*\[|~$]|<(?=[A-Za-z/!?]|$)|&(?=#|\w+;|$)|(?<![^\W_])_|_(?![^\W_])")
_STARTS = re.compile(r"^([-+=:#>]|\d+[.)])")
_SCHEME = re.compile(r"(?i)\b(https?|ftp|mailto|www)([:.])")
_BACKTICKS = re.compile(r"`+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def as_markdown(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        yield from _block(block)
        yield "\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield f"{'#' * block.level} {_line(block.text)}\n"
        case Banner():
            yield f"**{_MARKS[block.tone]}{_line(block.title)}**\n\n{_start(_line(block.text))}\n"
            yield "".join(f"\n{_start(_spans(note))}\n" for note in block.notes)
        case Paragraph():
            yield f"{_start(_spans(block.spans))}\n"
        case Items():
            yield "".join(f"- {_start(_spans(item))}\n" for item in block.items)
        case Table():
            yield from _table(block)
        case Quote():
            yield _quoted(block.text) if block.is_markdown else _fenced(block.text)
        case OutputBlock():
            yield _fenced(block.text, block.language)
        case Picture():
            kind, size = _line(block.media_type), f"{len(block.data):,} bytes"
            yield f"\\[picture: {_code(block.name)}, {kind}, {size}; the page in HTML shows it\\]\n"
        case Collapsible():
            title = _spans(block.title)
            yield f"{'#' * block.level} {title}\n\n" if block.level else f"**{title.strip()}**\n\n"
            yield from as_markdown(block.blocks)


def _table(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(_line(name) for name in table.head)} |\n"
    rules = ("--:" if place in table.numbers else "---" for place in range(len(table.head)))
    yield f"|{'|'.join(rules)}|\n"
    for row in table.rows:
        yield f"| {' | '.join(_spans(cell, is_cell=True) for cell in row)} |\n"


def _spans(spans: Spans, *, is_cell: bool = False) -> str:
    return "".join(_span(span, is_cell=is_cell) for span in spans)


def _span(span: Span, *, is_cell: bool) -> str:
    if isinstance(span, str):
        return _line(span)
    if isinstance(span, Mono):
        return _code(span.text, is_cell=is_cell)
    if isinstance(span, Link):
        return f"[{_line(span.text)}]({quote(f'./{span.to}')})"
    return f"{_MARKS[span.tone]}{_line(span.text)}"


def _line(text: str) -> str:
    """One line in which nothing is markup, no address becomes a link, and the end escapes nothing of ours."""
    flat = " ".join(plain(text).split("\n"))
    return _SCHEME.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", flat)).replace("\t", " ")


def _start(line: str) -> str:
    """A line that begins a block, so that it is no list, rule or table."""
    return _STARTS.sub(_escaped_start, line.strip())


def _escaped_start(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}\\{found[0][-1]}"


def _code(text: str, *, is_cell: bool = False) -> str:
    flat = " ".join(plain(text).split())
    if not flat:
        return ""
    if is_cell:
        flat = flat.replace("\\|", "\\ |").replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(flat)), default=0))
    pad = " " if flat[0] == "`" or flat[-1] == "`" else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def _quoted(text: str) -> str:
    """A quotation, so that its headings are not ours; tags in it are text, and its code is closed."""
    lines: list[str] = []
    fence = ""
    for line in plain(text).splitlines():
        found = _FENCE.match(line)
        is_closing = found is not None and found[1].startswith(fence) and not found[2].strip()
        lines.append(f"> {line if fence else line.replace('<', '&lt;')}".rstrip())
        if fence:
            fence = "" if is_closing else fence
        elif found is not None and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
    return "\n".join(lines + ([f"> {fence}"] if fence else [])) + "\n"


def _fenced(text: str, language: str = "text") -> str:
    shown = plain(text).rstrip()
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}\n"

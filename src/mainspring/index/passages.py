"""Texts as passages that a search can point to: sections of Markdown, cells, pages, sheets, rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mainspring.index import IndexedSymbol, Passage
from mainspring.tools.html import html_text
from mainspring.tools.notebook import notebook_text

TEXTS = (".md", ".markdown", ".rst", ".txt", ".adoc", ".html", ".htm", ".csv", ".tsv", ".ipynb")
DOCUMENTS = (".pdf", ".docx", ".xlsx", ".xlsm", ".pptx")
MAX_PASSAGES = 2000
_MAX_CHARS = 2000
_HEADING = re.compile(r"^(?:#{1,6} +(.+)|\[((?:page|sheet|slide|cell|output)\b[^\]]*)\])$", re.IGNORECASE)


def text_passages(path: str, text: str) -> list[Passage]:
    """Of a file that is text; lines of pages and notebooks are those of what `read` shows of them."""
    lower = path.lower()
    if lower.endswith((".html", ".htm")):
        text = html_text(text)
    elif lower.endswith(".ipynb"):
        text = notebook_text(text)
    return list(_sections(text))[:MAX_PASSAGES]


def doc_passages(path: str, doc: str, symbols: Sequence[IndexedSymbol]) -> list[Passage]:
    """What a source file says about itself and about what it defines."""
    own = [Passage(line=1, title=path, text=doc)] if doc else []
    told = [Passage(line=each.line, title=each.full_name, text=each.doc) for each in symbols if each.doc]
    return [*own, *told][:MAX_PASSAGES]


def _sections(text: str) -> Iterator[Passage]:
    title, first, held, size = "", 1, list[str](), 0
    for number, line in enumerate(text.split("\n"), 1):
        heading = _HEADING.match(line)
        if heading or size > _MAX_CHARS:
            if "".join(held).strip():
                yield Passage(line=first, title=title, text="\n".join(held).strip())
            first, held, size = number, [], 0
        if heading:
            title = (heading[1] or heading[2]).strip()
        held.append(line[:_MAX_CHARS])
        size += min(len(line), _MAX_CHARS) + 1
    if "".join(held).strip():
        yield Passage(line=first, title=title, text="\n".join(held).strip())

"""Markdown as rich shows it, but so that nothing of what was written is lost: tags and definitions of links
stand as they are, long words and wide tables are not cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, ListItem, Markdown, TableElement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ROW = re.compile(r"^ *\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
_PIPE = re.compile(r"(?<!\\)\|")
_INDENT_COLUMNS = 4
_INDENTS = ("list_item_open", "list_item_close", "blockquote_open", "blockquote_close")
_LEAST_COLUMNS = 16
_WORD_COLUMNS = 10
"""A column of a table may be so narrow, although a word in it is longer."""
# A definition may stand in another block than what refers to it, so both are shown as they are.
_PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable("reference")
_BLANK = Markdown("", hyperlinks=False)
"""What rich makes of nothing: making its parser again for each block costs more than parsing that."""


class _LeftHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        text.justify = "left"
        yield text


class _Table(TableElement):
    """A row for each row; where that is too narrow, a line for each cell."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = [each.content for each in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        if options.max_width < sum(map(_least_width, zip(heads, *rows, strict=True))) + 2 * len(heads):
            yield from _records(heads, rows)
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
        table.style = "markdown.table.border"
        for head in heads:
            head.stylize("markdown.table.header")
            table.add_column(head, overflow="fold")
        for row in rows:
            table.add_row(*row)
        yield table


def _least_width(column: Sequence[Text]) -> int:
    words = [cell_len(word) for cell in column for word in cell.plain.split()]
    return min(max(words, default=1), _WORD_COLUMNS)


def _records(heads: Sequence[Text], rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
    for row in rows or [[Text() for _ in heads]]:
        for head, cell in zip(heads, row, strict=True):
            yield Text.assemble((head.plain, "markdown.table.header"), ": ", cell)
        yield Text()


class _Item(ListItem):
    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        width = len(str(last_number)) + 3
        lines = console.render_lines(self.elements, options.update(width=options.max_width - width))
        style = console.get_style("markdown.item.number", default="none")
        for at, line in enumerate(lines):
            yield Segment(f"{number}. ".rjust(width) if at == 0 else " " * width, style)
            yield from line
            yield Segment("\n")


class _Rule(HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("─" * options.max_width, "markdown.hr")


class _CodeInside(CodeBlock):
    """Code inside a list or a quote."""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> CodeBlock:
        assert isinstance(markdown, MarkdownDocument)  # noqa: S101 - nothing else has this element
        made = cls(token.info.partition(" ")[0], "")
        made.paint = markdown.paint_code
        return made

    paint: Callable[[str, str], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.from_ansi(self.paint(self.text.plain.rstrip(), self.lexer_name), overflow="fold")


class MarkdownDocument(Markdown):
    """`least_columns` is what its lists and quotes need, each inside the one before it."""

    elements: ClassVar = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "table_open": _Table,
        "list_item_open": _Item,
        "hr": _Rule,
        "fence": _CodeInside,
        "code_block": _CodeInside,
    }

    def __init__(self, text: str, *, has_strike: bool, paint_code: Callable[[str, str], str]) -> None:
        self.__dict__ |= vars(_BLANK)
        self.paint_code = paint_code
        self.parsed = [_block(token, has_strike=has_strike) for token in _PARSER.parse(_ROW.sub(_row, text))]
        self.least_columns = _LEAST_COLUMNS + _INDENT_COLUMNS * _depth(self.parsed)


def _row(row: re.Match[str]) -> str:
    """A row of a table in which code may hold what parts cells elsewhere, as models write it."""
    return _CODE.sub(lambda code: _PIPE.sub(r"\\|", code[0]), row[0])


def _depth(tokens: Sequence[Token]) -> int:
    """How many lists and quotes stand inside each other at most."""
    return max(accumulate(token.nesting * (token.type in _INDENTS) for token in tokens), default=0)


def _block(token: Token, *, has_strike: bool) -> Token:
    if token.type == "html_block":
        return Token("fence", "code", 0, content=token.content, info="html", level=token.level)
    if token.children:
        token.children = list(_inline(token.children, has_strike=has_strike))
    return token


def _inline(tokens: Sequence[Token], *, has_strike: bool) -> Iterator[Token]:
    """What rich would leave out, cut or say twice, in a form that it shows."""
    is_shown_link = False
    for at, token in enumerate(tokens):
        match token.type:
            case "html_inline":
                yield (
                    Token("hardbreak", "br", 0) if _BREAK.fullmatch(token.content) else _text(token.content)
                )
            case "image":
                yield _text(" ".join(filter(None, (token.content, f"({token.attrs.get('src', '')})"))))
            case "link_open":
                is_shown_link = tokens[at + 1].content in (token.attrs["href"], _address(token))
                yield from () if is_shown_link else (token,)
            case "link_close" if is_shown_link:
                is_shown_link = False
            case "s_open" | "s_close" if not has_strike:
                yield _text(token.markup)
            case _:
                yield token


def _address(link: Token) -> str:
    return str(link.attrs["href"]).removeprefix("mailto:")


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)

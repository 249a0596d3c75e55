"""Markdown as lines for a terminal, by rich and pygments. Text must be safe for a terminal before.

Code is not wrapped, so that a terminal can and what is copied is whole; prose is, at words.
"""

from __future__ import annotations

import re
from importlib import import_module
from io import StringIO
from typing import Any

from pygments.util import ClassNotFound
from rich.console import Console
from rich.theme import Theme as RichTheme

from mainspring.chat.markdown_elements import MarkdownDocument
from mainspring.chat.palette import Palette

_PYGMENTS: Any = import_module("pygments")  # it has no types
_LEXERS: Any = import_module("pygments.lexers")
_TERMINAL: Any = import_module("pygments.formatters.terminal")
# Its light grey is the colour of light backgrounds.
_SCHEME = {
    kind: ("brightblack" if light == "gray" else light, dark)
    for kind, (light, dark) in _TERMINAL.TERMINAL_COLORS.items()
}
_CODE = re.compile(r"\A(`{3,}|~{3,})[ ]*([\w+#.-]*)[^\n]*\n(.*?)(?:\n?\1[`~]*[ ]*)?\Z", re.DOTALL)
_TRAILING = re.compile(r"[ ]+((?:\x1b\[0m)?)$", re.MULTILINE)
_SEQUENCE = re.compile(r"\x1b\[[\d;]*m")
_PROSE_COLUMNS = 100
_INDENT = "  "
_STYLES = RichTheme(
    {
        "markdown.code": "bold cyan",
        "markdown.code_block": "none",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.link": "cyan",
        "markdown.link_url": "cyan underline",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.block_quote": "italic",
        "markdown.hr": "dim",
    },
    inherit=True,
)


def rendered(text: str, *, columns: int, palette: Palette) -> str:
    """One block of Markdown, without a line end at its end."""
    if found := _CODE.match(text):
        return _code(found[3], found[2], palette)
    is_table = text.lstrip().startswith("|")
    document = MarkdownDocument(
        text,
        has_strike=palette.is_styled and palette.theme != "mono",
        paint_code=lambda code, language: _painted(code, language, palette),
    )
    console = Console(
        file=StringIO(),
        width=max(columns if is_table else min(columns, _PROSE_COLUMNS), document.least_columns),
        force_terminal=palette.is_styled,
        color_system="standard" if palette.is_styled and palette.theme != "mono" else None,
        no_color=palette.theme == "mono",
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
        theme=_STYLES,
        _environ={},
    )
    console.print(document)
    written = console.file
    assert isinstance(written, StringIO)  # noqa: S101 - it was given above
    lines = _TRAILING.sub(r"\1", written.getvalue()).split("\n")
    shown = [number for number, line in enumerate(lines) if _SEQUENCE.sub("", line).strip()]
    return "\n".join(lines[shown[0] : shown[-1] + 1]) if shown else ""


def _code(code: str, language: str, palette: Palette) -> str:
    shown = _painted(code, language, palette)
    return "\n".join(_INDENT + line if line else "" for line in shown.rstrip("\n").split("\n"))


def _painted(code: str, language: str, palette: Palette) -> str:
    if not palette.is_styled or palette.theme == "mono":
        return code
    return str(
        _PYGMENTS.highlight(
            code, _lexer(language), _TERMINAL.TerminalFormatter(bg=palette.theme, colorscheme=_SCHEME)
        )
    )


def _lexer(language: str) -> Any:
    try:
        return _LEXERS.get_lexer_by_name(language or "text", stripnl=False)
    except ClassNotFound:
        return _LEXERS.get_lexer_by_name("text", stripnl=False)

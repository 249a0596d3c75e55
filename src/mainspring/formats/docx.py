"""A DOCX as text: headings, paragraphs, lists, and tables as Markdown."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from mainspring.formats import DocumentError, module
from mainspring.formats.archive import Archive
from mainspring.formats.table import table_lines

_HEADING = re.compile(r"heading (\d)")


def open_docx(data: bytes) -> Any:
    """The document, after its archive was looked at."""
    Archive(data)
    docx = module("docx")
    try:
        return docx.Document(io.BytesIO(data))
    except (KeyError, ValueError, docx.opc.exceptions.OpcError, module("lxml.etree").LxmlError) as error:
        raise DocumentError(f"the file is broken: {error}") from error


def docx_parts(data: bytes) -> Iterator[tuple[str, str]]:
    document = open_docx(data)
    names = {style.style_id: style.name.lower() for style in document.styles if style.name}
    lines: list[str] = []
    for item in document.iter_inner_content():
        if hasattr(item, "rows"):
            lines += ["", *table_lines(_rows(item)), ""]
        elif text := item.text:
            lines.append(_marked(names.get(item._p.style, ""), text))
    yield "", "\n".join(lines).strip("\n")


def _marked(style: str, text: str) -> str:
    if heading := _HEADING.match(style):
        return f"\n{'#' * int(heading[1])} {text}"
    if style == "title":
        return f"# {text}"
    return f"- {text}" if style.startswith("list") else text


def _rows(table: Any) -> list[list[str]]:
    """By the elements: `table.cells` of the library takes the square of their number."""
    paragraph = module("docx.text.paragraph").Paragraph
    return [
        [" ".join(paragraph(each, table).text for each in cell.p_lst) for cell in row.tc_lst]
        for row in table._tbl.tr_lst
    ]

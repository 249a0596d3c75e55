"""Documents that are made and changed: each function takes the bytes there are (none for a new document) and
gives the new bytes with a sentence about what was done."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mainspring.formats import DocumentError, module
from mainspring.formats.archive import Archive
from mainspring.formats.docx import open_docx
from mainspring.formats.markdown import blocks, pieces

_FONTS = (
    "/usr/share/fonts/truetype/dejavu/DejaVuSans{}.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans{}.ttf",
    "/usr/share/fonts/TTF/DejaVuSans{}.ttf",
    "/Library/Fonts/DejaVuSans{}.ttf",
)
_STYLES = {"bullet": "List Bullet", "number": "List Number"}
_SIZES = {1: 20, 2: 16, 3: 13}
_REMADE = (
    "customXml/",
    "docMetadata/",
    "xl/calcChain.xml",
    "xl/sharedStrings.xml",
    "docProps/",
    "xl/theme/",
    "xl/printerSettings/",
)
_MAX_SHEET_NAME, _MAX_LETTERS = 31, 20
Changed = tuple[bytes, str]


def append_docx(data: bytes, request: Mapping[str, Any]) -> Changed:
    document = open_docx(data) if data else module("docx").Document()
    found = list(blocks(request["content"]))
    for block in found:
        if block.kind == "heading":
            document.add_heading(block.text, min(block.level, 9))
        elif block.kind == "table":
            table = document.add_table(rows=0, cols=max(map(len, block.rows), default=1))
            for row in block.rows:
                for cell, text in zip(table.add_row().cells, row, strict=False):
                    cell.text = text
        else:
            _add_runs(document.add_paragraph(style=_style(document, block.kind)), block.text, block.kind)
    return _saved(document.save), f"{len(found)} blocks"


def edit_docx(data: bytes, request: Mapping[str, Any]) -> Changed:
    """One text in one paragraph; the runs that it does not touch stay as they are."""
    document, old = open_docx(data), request["old"]
    paragraph = module("docx.text.paragraph").Paragraph
    body = document.element.body
    every = [paragraph(each, document) for each in body.iter(module("docx.oxml.ns").qn("w:p"))]
    found = [each for each in every if old in "".join(run.text for run in each.runs)]
    count = sum("".join(run.text for run in each.runs).count(old) for each in found)
    if count != 1:
        raise DocumentError(
            f"the old text stands in its paragraphs {count} times; give one that stands in one of them, once"
        )
    _replace(found[0].runs, old, request["new"])
    return _saved(document.save), "one paragraph"


def append_xlsx(data: bytes, request: Mapping[str, Any]) -> Changed:
    book, name = _book(data), request["sheet"]
    if len(name) > _MAX_SHEET_NAME:
        raise DocumentError(f"the name of a sheet has at most {_MAX_SHEET_NAME} characters: {name!r}")
    try:
        if not data:
            book.active.title = name or "Sheet1"
        sheet = _sheet(book, name) if not name or name in book.sheetnames else book.create_sheet(name)
    except ValueError as error:
        raise DocumentError(f"{name!r} cannot be the name of a sheet: {error}") from error
    for row in request["rows"]:
        sheet.append(row)
    return _whole(data, book), f"{len(request['rows'])} rows in sheet {sheet.title}"


def edit_xlsx(data: bytes, request: Mapping[str, Any]) -> Changed:
    book, name = _book(data), request["sheet"]
    sheet = _sheet(book, name)
    for place, value in request["cells"].items():
        try:
            sheet[place].value = value
        except (ValueError, AttributeError) as error:
            raise DocumentError(f"{place!r} is not a cell that can be set") from error
    return _whole(data, book), f"{', '.join(request['cells'])} in sheet {sheet.title}"


def _sheet(book: Any, name: str) -> Any:
    """The sheet of that name, or the first; a page that is only a chart has no cells."""
    sheets = {each.title: each for each in book.worksheets}
    if found := sheets.get(name) if name else next(iter(sheets.values()), None):
        return found
    raise DocumentError(f"it has no sheet {name!r}; there are {', '.join(sheets) or 'none'}")


def markdown_pdf(_data: bytes, request: Mapping[str, Any]) -> Changed:
    fpdf = module("fpdf")
    pdf = fpdf.FPDF()
    pdf.set_auto_page_break(True, margin=20)
    family = _font(pdf)
    text = request["content"]
    told = ""
    if family == "helvetica" and not _is_latin(text):
        text = text.encode("latin-1", "replace").decode("latin-1")
        told = " (letters that the fonts of this machine lack became question marks; install DejaVu Sans)"
    pdf.add_page()
    for block in blocks(text):
        _draw(pdf, family, block)
    written = bytes(pdf.output())
    return written, f"{pdf.pages_count} pages{told or _lacking(pdf)}"


def _lacking(pdf: Any) -> str:
    """What the fonts could not draw; it is not on the pages."""
    codes = {code for font in pdf.fonts.values() for code in getattr(font, "missing_glyphs", ())}
    if not codes:
        return ""
    shown = "".join(map(chr, sorted(codes)[:_MAX_LETTERS]))
    return f" (the font has no {shown}{'…' if len(codes) > _MAX_LETTERS else ''}, so these are missing)"


def _draw(pdf: Any, family: str, block: Any) -> None:
    here = {"new_x": "LMARGIN", "new_y": "NEXT"}
    if block.kind == "heading":
        pdf.set_font(family, "B", _SIZES.get(block.level, 11))
        pdf.multi_cell(0, text="".join(part for _, part in pieces(block.text)), **here)
    elif block.kind == "table":
        pdf.set_font(family, "", 10)
        with pdf.table() as table:
            for row in block.rows:
                drawn = table.row()
                for cell in row:
                    drawn.cell(cell)
    elif block.kind == "code":
        pdf.set_font("courier" if _is_latin(block.text) else family, "", 9)
        pdf.multi_cell(0, text=block.text, **here)
    else:
        pdf.set_font(family, "", 11)
        mark = {"bullet": "- ", "number": f"{block.level}. "}.get(block.kind, "")
        for style, part in (("", mark), *pieces(block.text)):
            pdf.set_font(family, {"bold": "B", "italic": "I"}.get(style, ""), 11)
            pdf.write(6, part)
        pdf.ln(6)
    pdf.ln(2)


def _font(pdf: Any) -> str:
    """A font of this machine that has more than Latin letters, or the one that every reader has."""
    for pattern in _FONTS:
        if Path(pattern.format("")).is_file():
            for style, ends in (("", ("",)), ("B", ("-Bold", "")), ("I", ("-Oblique", ""))):
                files = (pattern.format(end) for end in ends)
                pdf.add_font("DejaVu", style, next(each for each in files if Path(each).is_file()))
            return "DejaVu"
    return "helvetica"


def _is_latin(text: str) -> bool:
    return text.encode("latin-1", "ignore").decode("latin-1") == text


def _style(document: Any, kind: str) -> str | None:
    """The style of lists, where the document has it."""
    name = _STYLES.get(kind)
    return name if name and any(style.name == name for style in document.styles) else None


def _add_runs(paragraph: Any, text: str, kind: str) -> None:
    parts: Iterator[tuple[str, str]] = iter([("code", text)]) if kind == "code" else pieces(text)
    for style, part in parts:
        run = paragraph.add_run(part)
        run.bold, run.italic = style == "bold" or None, style == "italic" or None
        if style == "code":
            run.font.name = "Courier New"


def _replace(runs: Sequence[Any], old: str, new: str) -> None:
    start = "".join(run.text for run in runs).index(old)
    end, at, is_placed = start + len(old), 0, False
    for run in runs:
        text = run.text
        first, last = max(start - at, 0), min(end - at, len(text))
        at += len(text)
        if first < last:
            run.text = text[:first] + ("" if is_placed else new) + text[last:]
            is_placed = True


def _book(data: bytes) -> Any:
    openpyxl = module("openpyxl")
    if not data:
        return openpyxl.Workbook()
    archive = Archive(data)
    try:
        return openpyxl.load_workbook(io.BytesIO(data), keep_vba="xl/vbaProject.bin" in archive.names)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DocumentError(f"the file is broken, or has what openpyxl cannot read: {error}") from error


def _whole(data: bytes, book: Any) -> bytes:
    """The saved workbook, if it still has all that it had: the library drops what it does not know."""
    after = _saved(book.save)
    if data and (lost := sorted(_folders(data) - _folders(after))):
        raise DocumentError(
            f"it would lose {', '.join(lost)}, which the library cannot keep; nothing was changed"
        )
    return after


def _folders(data: bytes) -> Counter[str]:
    """How many parts of each kind there are, without those that are made anew."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if not name.startswith(_REMADE)]
    return Counter(
        "xl/comments" if name.startswith("xl/comments") else name.rpartition("/")[0]
        for name in names
        if not name.endswith((".rels", "/"))
    )


def _saved(save: Any) -> bytes:
    held = io.BytesIO()
    save(held)
    return held.getvalue()

"""Small documents, made by the libraries that people use, and hostile ones."""

import io
import zipfile

import docx
import fpdf
import openpyxl
from openpyxl.styles import Font

_SLIDE = """<?xml version="1.0"?><p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"
 xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><p:cSld><p:spTree>
<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>
<p:txBody><a:p><a:r><a:t>{title}</a:t></a:r></a:p></p:txBody></p:sp>
<p:sp><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>
</p:spTree></p:cSld></p:sld>"""
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
)
_RELATION = '<Relationship Id="{}" Type="x" Target="{}"/>'


def a_docx() -> bytes:
    document = docx.Document()
    document.add_heading("Plan", 1)
    paragraph = document.add_paragraph("The budget is ")
    paragraph.add_run("100 EUR").bold = True
    paragraph.add_run(" this year.")
    document.add_paragraph("first", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ("Name", "Sum", "rent", "a|b"), strict=True):
        cell.text = text
    document.add_heading("Later", 2)
    return _saved(document.save)


def an_xlsx(rows: int = 2) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Costs"
    sheet.append(["Item", "EUR"])
    for number in range(1, rows + 1):
        sheet.append([f"item {number}", number * 1.5])
    sheet["B1"].font = Font(bold=True, color="FF0000")
    sheet["D5"] = "=SUM(B2:B3)"
    book.create_sheet("Other")["C3"] = "alone"
    return _saved(book.save)


def a_pptx() -> bytes:
    names = ("slide2", "slide1")  # the order of the presentation, not of the names
    ids = "".join(f'<p:sldId id="{n}" r:id="r{n}"/>' for n, _ in enumerate(names))
    presentation = (
        '<p:presentation xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
        f' xmlns:r="{_OFFICE}"><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>'
    )
    targets = "".join(_RELATION.format(f"r{n}", f"slides/{each}.xml") for n, each in enumerate(names))
    note = _RELATION.format("n1", "../notesSlides/notesSlide1.xml")
    return zipped(
        {
            "ppt/presentation.xml": presentation,
            "ppt/_rels/presentation.xml.rels": _RELATIONS.format(targets),
            "ppt/slides/slide1.xml": _SLIDE.format(kind="title", title="Second", text="two"),
            "ppt/slides/slide2.xml": _SLIDE.format(kind="ctrTitle", title="First", text="one &amp; a half"),
            "ppt/slides/_rels/slide2.xml.rels": _RELATIONS.format(note),
            "ppt/notesSlides/notesSlide1.xml": _SLIDE.format(kind="body", title="say hello", text="1"),
        }
    )


def a_pdf(*pages: str, password: str = "") -> bytes:
    pdf = fpdf.FPDF()
    pdf.set_font("helvetica")
    for text in pages:
        pdf.add_page()
        pdf.multi_cell(0, text=text)
    if password:
        pdf.set_encryption(owner_password="owner", user_password=password)
    return bytes(pdf.output())


def zipped(parts: dict[str, str | bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return held.getvalue()


def with_part(data: bytes, name: str, text: bytes) -> bytes:
    """The same archive with one part replaced."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts: dict[str, str | bytes] = {each: archive.read(each) for each in archive.namelist()}
    return zipped({**parts, name: text})


def _saved(save) -> bytes:
    held = io.BytesIO()
    save(held)
    return held.getvalue()

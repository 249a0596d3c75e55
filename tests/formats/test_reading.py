"""What `read` shows of documents, and that hostile ones end in a sentence."""

import sys

import pytest

from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy
from mainspring.tools import documents
from mainspring.tools.grep import TOOL as GREP
from mainspring.tools.read import TOOL as READ
from tests.formats.samples import a_docx, a_pdf, a_pptx, an_xlsx, with_part, zipped
from tests.tools.workshop import Workshop

BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
    + b"]><w>&j;</w>"
)


@pytest.fixture
def shop(tmp_path):
    return Workshop(tmp_path, READ, GREP)


def lines(shown: str) -> list[str]:
    return [line.partition("\t")[2] for line in shown.splitlines()]


def test_a_docx_has_headings_lists_and_tables(shop):
    shop.put("a.docx", a_docx())
    assert lines(shop.text("read", path="a.docx")) == [
        "# Plan",
        "The budget is 100 EUR this year.",
        "- first",
        "",
        "| Name | Sum |",
        "| --- | --- |",
        "| rent | a\\|b |",
        "",
        "",
        "## Later",
    ]


def test_an_xlsx_has_sheets_with_the_names_of_cells_and_formulas(shop):
    shop.put("a.xlsx", an_xlsx())
    assert lines(shop.text("read", path="a.xlsx")) == [
        "(2 sheets; by line: 1 at 3, 2 at 11)",
        "",
        "[sheet 1 of 2: Costs]",
        "|  | A | B | C | D |",
        "| --- | --- | --- | --- | --- |",
        "| 1 | Item | EUR |  |  |",
        "| 2 | item 1 | 1.5 |  |  |",
        "| 3 | item 2 | 3 |  |  |",
        "| 5 |  |  |  | (=SUM(B2:B3)) |",
        "",
        "[sheet 2 of 2: Other]",
        "|  | C |",
        "| --- | --- |",
        "| 3 | alone |",
    ]


def test_a_pptx_is_read_in_the_order_of_its_slides_with_notes(shop):
    shop.put("a.pptx", a_pptx())
    assert lines(shop.text("read", path="a.pptx"))[2:] == [
        *("[slide 1 of 2]", "# First", "one & a half", "", "Notes:", "say hello", ""),
        *("[slide 2 of 2]", "# Second", "two"),
    ]


def test_a_pdf_says_where_its_pages_begin_and_is_read_once(shop, monkeypatch):
    shop.put("a.pdf", a_pdf(*(f"text of page {number}" for number in range(1, 41))))
    first = lines(shop.text("read", path="a.pdf", limit=3))
    place = next(each for each in first[0].split(", ") if each.startswith("21 at ")).removeprefix("21 at ")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # no program runs for the next page
    assert lines(shop.text("read", path="a.pdf", offset=int(place), limit=2))[:2] == [
        "[page 21 of 40]",
        "text of page 21",
    ]


@pytest.mark.parametrize("make", [a_docx, an_xlsx, a_pptx, lambda: a_pdf("x")])
def test_documents_are_read_where_commands_are_confined(tmp_path, make):
    class Confined(Workshop):
        async def sandbox(self):
            return await choose(policy(self.folder, home=self.home), self.environment)

    shop = Confined(tmp_path, READ)
    shop.put("a", make())
    documents._kept.clear()
    assert shop.text("read", path="a")


def test_documents_are_known_by_their_bytes_also_by_a_handle(shop):
    shop.blobs["cd" * 32] = a_docx()
    assert "# Plan" in shop.text("read", path="blob:" + "cd" * 32)


def test_ten_thousand_rows_come_in_pages(shop):
    shop.put("a.xlsx", an_xlsx(10_000))
    text = shop.text("read", path="a.xlsx", offset=9_000, limit=2)
    assert "item 8994" in text
    assert "go on with offset 9002" in text


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("cut.docx", a_docx()[:-200], "the file is broken"),
        ("cut.xlsx", an_xlsx()[:3000] + b"xl/workbook.xml", "the file is broken"),
        ("cut.pdf", a_pdf("x")[:200], "the file is broken"),
        ("locked.pdf", a_pdf("x", password="secret"), "protected by a password"),
        (
            "locked.xlsx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "password",
        ),
        ("empty.pptx", zipped({"ppt/presentation.xml": "<p"}), "the file is broken"),
        ("none.docx", zipped({"word/document.xml": "<w/>"}), "the file is broken"),
        ("entities.docx", with_part(a_docx(), "word/document.xml", BOMB), "declares entities"),
        ("entities.xlsx", with_part(an_xlsx(), "xl/sharedStrings.xml", BOMB), "declares entities"),
        (
            "utf16.docx",
            with_part(a_docx(), "word/document.xml", BOMB.decode().encode("utf-16")),
            "declares entities",
        ),
    ],
)
def test_a_broken_or_hostile_document_is_told(shop, name, data, told):
    shop.put(name, data)
    assert told in shop.error("read", path=name)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(shop):
    shop.put("a.docx", with_part(a_docx(), "word/media/x.bin", bytes(129 * 1024 * 1024)))
    assert "unpacks to" in shop.error("read", path="a.docx")


@pytest.mark.parametrize(("name", "make"), [("a.docx", a_docx), ("a.xlsx", an_xlsx), ("a.pptx", a_pptx)])
def test_a_part_that_lies_about_its_size_is_told(shop, name, make):
    """Its directory says that a part is small."""
    size = 16 * 1024 * 1024
    data = with_part(make(), "xl/huge.xml", bytes(size))
    shop.put(name, data.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    assert "cannot be read: the file is broken" in shop.error("read", path=name)


def test_what_takes_too_much_is_stopped_with_a_sentence(shop, monkeypatch):
    monkeypatch.setattr(documents, "_TIME_S", 0.01)
    shop.put("a.docx", a_docx() + b"\0")
    assert "its reader was stopped (timed out" in shop.error("read", path="a.docx")


def test_a_sheet_with_one_far_cell_is_told(shop):
    """Its library makes room for every cell between them."""
    sheet = (
        b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        b'<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
        b"</sheetData></worksheet>"
    )
    shop.put("a.xlsx", with_part(an_xlsx(), "xl/worksheets/sheet1.xml", sheet))
    assert "its reader crashed" in shop.error("read", path="a.xlsx")


def test_documents_are_searched_when_they_are_asked_for(shop):
    shop.put("docs/a.pdf", a_pdf("one", "the budget of two"))
    shop.put("docs/b.docx", a_docx())
    shop.put("docs/broken.pdf", b"%PDF-1.4\nbudget\0")
    shop.put("notes.txt", "budget")
    assert shop.text("grep", pattern="budget") == "notes.txt\n  1: budget"
    found = shop.text("grep", pattern="BUDGET", glob="*.{pdf,docx}", ignore_case=True)
    assert found.splitlines()[:-1] == [
        *("docs/a.pdf", "  7: the budget of two"),
        *("docs/b.docx", "  2: The budget is 100 EUR this year."),
    ]
    assert "not searched: docs/broken.pdf cannot be read" in found
    assert (
        shop.text("grep", pattern="EUR", path="docs/b.docx")
        == "b.docx\n  2: The budget is 100 EUR this year."
    )
    assert lines(shop.text("read", path="docs/a.pdf", offset=7)) == ["the budget of two"]  # the same lines
    assert "is not a regular expression" in shop.error("grep", pattern="(", glob="*.pdf")

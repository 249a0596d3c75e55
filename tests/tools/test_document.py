"""The tool `document`: what it makes can be read, what it changes keeps the rest, and undo takes it back."""

import asyncio
import io
import sys
import zipfile

import docx
import msgspec
import openpyxl
import pytest
from openpyxl.comments import Comment

from mainspring.app.document_tools import document_tools
from mainspring.events import CallEnded, FilesChanged
from mainspring.models.scripted import ScriptedCall, ScriptedReply
from mainspring.settings import Config
from mainspring.testing import tool_call
from mainspring.tools.document import TOOL as DOCUMENT
from mainspring.tools.read import TOOL as READ
from tests.checks.test_after_change import configured
from tests.formats.samples import a_docx, an_xlsx, with_part, zipped
from tests.stage import staged
from tests.tools.workshop import Workshop

NOTES = """# Plan

The **budget** is *small*,
over two lines.

- first
1. second

| Name | Sum |
|---|---|
| rent | 5 |

```
code(1)
```
"""


@pytest.fixture
def shop(tmp_path):
    return Workshop(tmp_path, READ, DOCUMENT)


def shown(shop, path: str) -> list[str]:
    return [line.partition("\t")[2] for line in shop.text("read", path=path).splitlines()]


def test_a_docx_is_made_from_markdown_and_appended_to(shop):
    shop.text("document", action="write", path="a.docx", content=NOTES)
    shop.text("document", action="append", path="a.docx", content="## More\n\nlast words")
    text = [line for line in shown(shop, "a.docx") if line]
    assert text == [
        *("# Plan", "The budget is small, over two lines.", "- first", "- second"),
        *("| Name | Sum |", "| --- | --- |", "| rent | 5 |", "code(1)", "## More", "last words"),
    ]
    runs = docx.Document(str(shop.path("a.docx"))).paragraphs[1].runs
    assert [(run.text, run.bold, run.italic) for run in runs][1:4:2] == [
        ("budget", True, None),
        ("small", None, True),
    ]


def test_a_paragraph_of_a_docx_is_edited_and_its_formatting_kept(shop):
    shop.put("a.docx", a_docx())
    shop.text("document", action="edit", path="a.docx", old="is 100 EUR", new="was 90 EUR")
    shop.text("document", action="edit", path="a.docx", old="rent", new="food")
    document = docx.Document(str(shop.path("a.docx")))
    assert [(run.text, run.bold) for run in document.paragraphs[1].runs] == [
        ("The budget was 90 EUR", None),
        ("", True),
        (" this year.", None),
    ]
    assert document.tables[0].cell(1, 0).text == "food"
    assert "0 times" in shop.error("document", action="edit", path="a.docx", old="nowhere", new="x")


def test_cells_of_an_xlsx_are_set_and_styles_and_other_sheets_kept(shop):
    shop.put("a.xlsx", an_xlsx())
    shop.text(
        "document", action="edit", path="a.xlsx", sheet="Costs", cells={"B1": "Euro", "C2": 7, "C3": "=B2*2"}
    )
    shop.text("document", action="append", path="a.xlsx", rows=[["new", 1.5]])
    book = openpyxl.load_workbook(shop.path("a.xlsx"))
    sheet = book["Costs"]
    assert [sheet[each].value for each in ("B1", "C2", "C3", "D5", "A6")] == [
        "Euro",
        7,
        "=B2*2",
        "=SUM(B2:B3)",
        "new",
    ]
    assert sheet["B1"].font.bold
    assert book["Other"]["C3"].value == "alone"
    assert "it has no sheet 'Nope'" in shop.error(
        "document", action="edit", path="a.xlsx", sheet="Nope", cells={"A1": 1}
    )
    assert "not a cell" in shop.error("document", action="edit", path="a.xlsx", cells={"A1:B2": 1})


def test_what_the_library_would_drop_is_refused(shop):
    before = with_part(an_xlsx(), "xl/slicers/slicer1.xml", b"<slicers/>")
    shop.put("a.xlsx", before)
    assert "would lose xl/slicers" in shop.error("document", action="edit", path="a.xlsx", cells={"A1": 1})
    assert shop.path("a.xlsx").read_bytes() == before


def test_a_comment_where_excel_keeps_it_is_kept(shop):
    """Its library writes it to a part of another name."""
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active["A1"].comment = Comment("hello", "me")
    book.save(shop.path("a.xlsx"))
    with zipfile.ZipFile(shop.path("a.xlsx")) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/comments1.xml"] = parts.pop("xl/comments/comment1.xml")
    for name in ("[Content_Types].xml", "xl/worksheets/_rels/sheet1.xml.rels"):
        parts[name] = parts[name].replace(b"/xl/comments/comment1.xml", b"/xl/comments1.xml")
    shop.put("a.xlsx", zipped({**parts}))
    shop.text("document", action="edit", path="a.xlsx", cells={"B1": 1})
    sheet = openpyxl.load_workbook(shop.path("a.xlsx")).active
    assert sheet is not None
    assert sheet["A1"].comment.text == "hello"


def test_an_xlsx_is_made_from_rows(shop):
    shop.text(
        "document", action="write", path="new.xlsx", sheet="Sum", rows=[["a", 1], ["b", True], ["=A1", None]]
    )
    assert shown(shop, "new.xlsx")[0] == "[sheet 1 of 1: Sum]"
    assert openpyxl.load_workbook(shop.path("new.xlsx"))["Sum"]["A3"].value == "=A1"


def test_markdown_is_exported_as_pdf_and_appended_to(shop):
    shop.put("notes.md", NOTES)
    shop.text("document", action="append", path="notes.md", content="The end, grün ✓\n")
    shop.text("document", action="export", path="notes.md", to="out/notes.pdf")
    text = "\n".join(shown(shop, "out/notes.pdf"))
    for part in ("Plan", "The budget is small, over two lines.", "rent", "code(1)", "The end, grün"):
        assert part in text


def test_letters_that_no_font_can_draw_are_told(shop):
    shop.put("notes.md", "Zahlen: 日本 and more\n")
    told = shop.text("document", action="export", path="notes.md", to="notes.pdf")
    assert "the font has no 日本, so these are missing" in told or "became question marks" in told


def test_rows_are_appended_to_the_first_sheet_whichever_is_shown(shop):
    book = openpyxl.Workbook()
    book.active = book.create_sheet("Second")
    held = io.BytesIO()
    book.save(held)
    shop.put("a.xlsx", held.getvalue())
    assert "1 rows in sheet Sheet" in shop.text("document", action="append", path="a.xlsx", rows=[["x"]])


@pytest.mark.parametrize("name", ["a/b", "x" * 32])
def test_a_name_that_no_sheet_can_have_is_refused(shop, name):
    told = shop.error("document", action="write", path="a.xlsx", sheet=name, rows=[["x"]])
    assert "sheet" in told
    assert "reader ended" not in told


def test_tables_with_other_delimiters_are_shown_as_tables(shop):
    shop.put("a.csv", "name;sum\nrent;2,5\n")
    shop.put("a.tsv", "name\tsum\nrent, heat\t2\n")
    assert "| rent | 2,5 |" in shop.text("document", action="text", path="a.csv")
    assert "| rent, heat | 2 |" in shop.text("document", action="text", path="a.tsv")


def test_pages_and_tables_are_shown_as_text(shop):
    shop.put("a.html", "<h1>T</h1><p>See <a href='https://example.org/'>this</a></p><script>x()</script>")
    shop.put("a.csv", 'name,sum\n"a, b",2\n')
    assert "[this](https://example.org/)" in shop.text("document", action="text", path="a.html")
    assert "| a, b | 2 |" in shop.text("document", action="text", path="a.csv")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"action": "write", "path": "a.docx"}, "give `content`"),
        ({"action": "edit", "path": "old.xlsx"}, "give `cells`"),
        ({"action": "write", "path": "a.py", "content": "x"}, "is for DOCX and XLSX"),
        ({"action": "export", "path": "a.md"}, "the path of the PDF"),
        ({"action": "write", "path": "old.xlsx", "rows": [["x"]]}, "have not read it"),
        ({"action": "write", "path": "a.docx", "content": "a\x01b"}, "control characters"),
        ({"action": "write", "path": "a.xlsx", "rows": [["a\x01b"]]}, "control characters"),
        ({"action": "edit", "path": "no.docx", "old": "x"}, "There is no file"),
        ({"action": "edit", "path": "text.docx", "old": "x"}, "is not a DOCX file"),
        ({"action": "append", "path": "../x.docx", "content": "x"}, "There is no file"),
        ({"action": "write", "path": "../x.docx", "content": "x"}, "outside the workspace"),
    ],
)
def test_what_cannot_be_done_is_told(shop, arguments, told):
    shop.put("old.xlsx", an_xlsx())
    shop.put("text.docx", "hello")
    assert told in shop.error("document", **arguments)


def through(**arguments):
    return ScriptedReply(
        calls=(ScriptedCall(name="call_tool", arguments={"name": "document", "arguments": arguments}),)
    )


def test_a_session_finds_the_tool_changes_a_cell_and_takes_it_back(tmp_path):
    stage = staged(
        tmp_path,
        {},
        tool_call("find_tools", query="change a cell of a spreadsheet XLSX"),
        through(action="edit", path="a.xlsx", cells={"A1": "changed"}),
        "Done.",
    )
    before = an_xlsx()
    stage.workspace.joinpath("a.xlsx").write_bytes(before)
    stage.run("Go", config=configured(tmp_path), mode="auto")
    found, changed = [event.output for event in stage.events(CallEnded)]
    assert "document: " in found
    assert changed.startswith("Changed a.xlsx")
    assert [change.path for event in stage.events(FilesChanged) for change in event.changes] == ["a.xlsx"]

    async def take_back() -> None:
        async with stage.open(config=configured(tmp_path), mode="auto") as session:
            await session.undo("files")

    assert stage.workspace.joinpath("a.xlsx").read_bytes() != before
    asyncio.run(take_back())
    assert stage.workspace.joinpath("a.xlsx").read_bytes() == before


def test_it_is_offered_where_documents_are_and_as_the_settings_say(tmp_path, monkeypatch):
    config = configured(tmp_path)
    work = tmp_path / "there"
    work.mkdir()
    assert document_tools(work, config) == []
    (work / "A.PDF").write_bytes(b"")
    assert document_tools(work, config) == [DOCUMENT]
    assert document_tools(work, wanting(config, "off")) == []
    assert document_tools(tmp_path / "nowhere", wanting(config, "on")) == [DOCUMENT]
    monkeypatch.setitem(sys.modules, "fpdf", None)
    assert document_tools(work, config) == []


def wanting(config: Config, documents: str) -> Config:
    work = msgspec.structs.replace(config.settings.work, documents=documents)
    return msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, work=work))

"""What `read` shows of each kind of file, and what it says when there is nothing to show."""

import sys

import msgspec
import pytest

from mainspring.tools.read import TOOL as READ
from tests.tools.workshop import Workshop

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


@pytest.fixture
def shop(tmp_path):
    return Workshop(tmp_path, READ)


def test_lines_are_numbered_and_come_in_pages(shop):
    shop.put("a.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    assert shop.text("read", path="a.txt", offset=4, limit=2).splitlines() == [
        "     4\tline 4",
        "     5\tline 5",
        "(5 more lines; go on with offset 6)",
    ]


def test_a_page_never_exceeds_the_room_of_its_call(shop):
    shop.put("a.txt", "0123456789\n" * 10_000)
    shop.room = 5000
    text = shop.text("read", path="a.txt", limit=5000)
    assert len(text) <= 5000
    assert "go on with offset" in text


def test_a_line_ends_only_at_a_line_feed(shop):
    shop.put("a.txt", "one\x0cstill one\u2028still\r\ntwo")
    assert shop.text("read", path="a.txt") == "     1\tone\x0cstill one\u2028still\n     2\ttwo"


def test_a_long_line_is_cut_and_says_how_long_it_was(shop):
    shop.put("a.txt", "x" * 5000)
    assert shop.text("read", path="a.txt").endswith("x… (5,000 characters)")


@pytest.mark.parametrize(
    "data",
    [
        "grün ✓".encode(),
        b"\xef\xbb\xbf" + "grün ✓".encode(),
        b"\xff\xfe" + "grün ✓".encode("utf-16-le"),
        b"\xfe\xff" + "grün ✓".encode("utf-16-be"),
    ],
    ids=["utf-8", "utf-8 with BOM", "utf-16-le", "utf-16-be"],
)
def test_text_is_read_in_its_own_encoding(shop, data):
    shop.put("a.txt", data)
    assert shop.text("read", path="a.txt") == "     1\tgrün ✓"


def test_what_is_not_utf_8_is_read_as_latin_1(shop):
    shop.put("a.txt", "grün".encode("latin-1"))
    assert shop.text("read", path="a.txt") == "     1\tgrün"


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x00\x00" * 10, bytes(range(128, 256)) + b"\x01\x02\x03\x04" * 9]
)
def test_a_binary_file_is_refused_with_its_size(shop, data):
    shop.put("a.bin", data)
    assert f"binary file of {len(data)} bytes" in shop.error("read", path="a.bin")


def test_an_empty_file_a_folder_and_a_missing_file_are_told_apart(shop):
    shop.put("empty", "")
    shop.put("folder/file", "")
    assert shop.text("read", path="empty") == "(the file is empty)"
    assert "is a folder" in shop.error("read", path="folder")
    assert shop.error("read", path="none") == "There is no file none."


def test_an_offset_past_the_end_says_how_long_the_file_is(shop):
    shop.put("a.txt", "one\ntwo\n")
    assert shop.error("read", path="a.txt", offset=9) == "The file has 2 lines; line 9 is past its end."


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(32), "image/jpeg"),
        (b"GIF89a" + bytes(32), "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 " + bytes(32), "image/webp"),
    ],
)
def test_an_image_is_attached(shop, data, media_type):
    shop.put("plot", data)
    output = shop.call("read", path="plot")
    (media,) = output.media
    assert (media.blob.media_type, media.name) == (media_type, "plot")
    assert shop.blobs[media.blob.sha256] == data


def test_an_image_that_is_too_large_is_refused(shop):
    shop.put("plot.png", PNG + bytes(6 * 1024 * 1024))
    assert "at most 5 MiB can be shown" in shop.error("read", path="plot.png")


def test_a_notebook_is_read_as_its_cells(shop):
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "words"]},
            {
                "cell_type": "code",
                "source": "print(6 * 7)",
                "outputs": [
                    {"output_type": "stream", "text": ["42\n"]},
                    {"data": {"text/plain": ["<Figure>"], "image/png": "iVBOR"}},
                    {"ename": "ValueError", "evalue": "no", "traceback": []},
                ],
            },
        ]
    }
    shop.put("a.ipynb", msgspec.json.encode(notebook))
    text = shop.text("read", path="a.ipynb")
    for part in (
        "[cell 1: markdown]",
        "# Title",
        "print(6 * 7)",
        "42",
        "<Figure>",
        "(image/png, not shown)",
        "ValueError: no",
    ):
        assert part in text
    assert "iVBOR" not in text


def test_a_notebook_that_is_none_is_read_as_it_stands(shop):
    shop.put("a.ipynb", "not json")
    assert shop.text("read", path="a.ipynb") == "     1\tnot json"


def test_a_pdf_is_read_as_text(shop):
    shop.put("a.pdf", pdf("Hello from a page"))
    text = shop.text("read", path="a.pdf")
    assert "[page 1 of 1]" in text
    assert "Hello from a page" in text


def test_a_broken_pdf_is_told(shop):
    shop.put("a.pdf", b"%PDF-1.4\nnothing more")
    assert "a.pdf cannot be read: the file is broken" in shop.error("read", path="a.pdf")


def test_without_the_extra_a_pdf_says_what_to_install(shop, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    shop.put("a.pdf", pdf("x"))
    assert "pip install 'mainspring[documents]'" in shop.error("read", path="a.pdf")


def test_what_was_left_out_is_read_by_its_handle(shop):
    shop.blobs["ab" * 32] = b"one\ntwo\nthree\n"
    assert shop.text("read", path="blob:" + "ab" * 32, offset=2, limit=1).startswith("     2\ttwo")
    assert "Nothing is kept under blob:ff" in shop.error("read", path="blob:ff")


def test_secrets_are_not_read(shop):
    shop.put(".env", "TOKEN=1")
    assert "hold secrets" in shop.error("read", path=".env")


def pdf(text: str) -> bytes:
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
            b" /Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return data + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)

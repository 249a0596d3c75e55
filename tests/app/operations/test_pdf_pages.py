"""Pages of PDFs are drawn by a real reader in a real sandbox."""

from __future__ import annotations

import asyncio
import struct
import sys
import zlib
from pathlib import Path

import pytest

from mainspring.app.operations.pdf_pages import PdfPages, draw_pdf
from mainspring.settings import load_config
from tests.serve.pdfs import pdf


def drawn(data: bytes, tmp_path: Path) -> PdfPages:
    config = load_config({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    return asyncio.run(draw_pdf(config, data))


def size(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", picture[16:24])


def test_each_page_is_a_picture_of_what_stands_on_it(tmp_path: Path) -> None:
    found = drawn(pdf("one", "two"), tmp_path)
    assert (found.count, found.why_not) == (2, "")
    first, second = found.pictures
    assert size(first) == size(second) == (1000, 1416)
    assert first != second


def test_of_many_pages_the_first_are_drawn_and_of_a_huge_one_a_small_picture(tmp_path: Path) -> None:
    found = drawn(pdf(*map(str, range(40)), size=(200_000, 100_000)), tmp_path)
    assert (found.count, len(found.pictures)) == (40, 12)
    assert size(found.pictures[0]) == (1000, 500)


def test_what_is_damaged_is_not_drawn_and_that_is_told(tmp_path: Path) -> None:
    found = drawn(b"%PDF-1.4\n\x00\xff", tmp_path)
    assert (found.pictures, "damaged" in found.why_not) == ((), True)


@pytest.mark.slow
def test_what_would_fill_the_memory_is_ended_and_that_is_told(tmp_path: Path) -> None:
    bomb = pdf("one", packed=zlib.compress(b"0 0 595 842 re f\n" * 3_000_000))
    assert len(bomb) < 1_000_000
    found = drawn(bomb, tmp_path)
    assert (found.pictures, "memory limit" in found.why_not) == ((), True)


def test_without_the_extra_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    found = drawn(pdf("one"), tmp_path)
    assert (found.pictures, "mainspring[documents]" in found.why_not) == ((), True)

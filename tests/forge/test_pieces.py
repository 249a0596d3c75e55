"""Files are cut so that what is sent fits a window, and nothing of them is left out."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.checks.grammars import outline
from mainspring.forge.pieces import LEAST_CHARS, pieces_of, room_in
from mainspring.forge.prompts import SYSTEM, judge_prompt, page_prompt, piece_prompt
from mainspring.forge.values import DocPage, PieceNotes, SourceFile, SourceOutline


def source(text: str, path: str = "a.py") -> SourceFile:
    return SourceFile(path, text, "0" * 64, msgspec.convert(outline(path, text.encode()), SourceOutline))


LONG = source("".join(f"def work_{n}(value):\n    return value * {n}  # {'x' * 150}\n\n" for n in range(250)))


@pytest.mark.parametrize("window", [2_048, 4_096, 32_000, None])
def test_every_request_about_a_long_file_fits_the_window(window: int | None) -> None:
    room = room_in(window, 3.6)
    pieces = pieces_of(LONG, room.chars)
    assert "".join(piece.text for piece in pieces) == LONG.text
    names = [each.name for each in LONG.outline.definitions]
    notes = [PieceNotes(about="It works. " * 40) for _ in pieces]
    page = DocPage(path="a.py", source="", summary="Much. " * 400, definitions=LONG.outline.definitions)
    texts = [piece_prompt(LONG, piece, names[:12]) for piece in pieces]
    texts.append(page_prompt(LONG, notes, room, how_to_use="import it as `a`.", complaint="It was wrong."))
    texts.append(judge_prompt(LONG, page, room))
    most = max(len(text) + len(SYSTEM) for text in texts)
    assert most / 3.0 + room.output_tokens <= (window or 8_192)


def test_pieces_begin_where_definitions_do() -> None:
    pieces = pieces_of(LONG, 1_000)
    starts = {each.line for each in LONG.outline.definitions}
    assert len(pieces) > 20
    assert all(piece.first_line in starts for piece in pieces)
    assert sum(len(piece.definitions) for piece in pieces) == len(LONG.outline.definitions)


def test_a_form_feed_begins_no_line() -> None:
    file = source("# one\x0c\n" * 300 + "def last():\n    return 1\n")
    pieces = pieces_of(file, 1_000)
    assert "".join(piece.text for piece in pieces) == file.text
    assert pieces[-1].last_line == 302
    assert [each.name for each in pieces[-1].definitions] == ["last"]


def test_a_line_that_is_too_long_is_cut_and_told() -> None:
    (piece,) = pieces_of(source("x = '" + "y" * 5_000 + "'\n"), 1_000)
    assert piece.is_cut
    assert len(piece.text) == 1_000


def test_a_room_is_halved_only_as_long_as_something_fits() -> None:
    room = room_in(4_096, 3.6)
    sizes = []
    while room is not None:
        sizes.append(room.chars)
        room = room.halved()
    assert sizes[-1] >= LEAST_CHARS
    assert len(sizes) > 2

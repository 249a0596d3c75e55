"""Every kind of event reads as a line, and the words page names it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import pytest

from mainspring.documents.lines import LINES, as_text
from mainspring.events import STORED, Event, TextDelta, Unknown

WORDS = Path(__file__).parents[2] / "docs" / "words.md"


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_every_stored_event_has_a_line(kind: type[Event]) -> None:
    assert kind in LINES, f"say in documents/lines.py how {kind.__name__} reads, or that it reads as nothing"


@pytest.mark.parametrize("kind", LINES, ids=lambda kind: kind.__name__)
def test_a_line_is_written_by_the_function_for_its_kind(kind: type[Event]) -> None:
    taken = get_type_hints(LINES[kind])["event"]
    assert taken in (kind, Event), f"{kind.__name__} is given to a function that takes {taken.__name__}"


def test_the_table_of_lines_has_nothing_that_is_not_stored() -> None:
    assert set(LINES) == {*STORED, Unknown}


def test_what_is_only_shown_while_it_happens_is_no_line() -> None:
    assert as_text(TextDelta(text="hello")) == ""


def test_the_words_page_says_what_each_stored_event_means() -> None:
    table = WORDS.read_text(encoding="utf-8").partition("## Events")[2]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    assert {kind.__name__ for kind in STORED} - named == set(), "docs/words.md has no row for them"
    assert named - {kind.__name__ for kind in STORED} == set(), "docs/words.md tells of events that are not"

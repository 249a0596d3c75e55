"""What a model says is kept only as far as it holds; replies are read also where they are no clean JSON."""

from __future__ import annotations

import pytest

from mainspring.forge.page_checks import described, kept_directions, text_problem, unknown_names, words_in
from mainspring.forge.prompts import FORMS, read_page, read_piece, read_scores
from mainspring.forge.values import (
    DescribedName,
    OutlinedDefinition,
    PageNotes,
    PieceNotes,
    SourceFile,
    SourceOutline,
)
from mainspring.secrets.vault import Vault

KNOWN = words_in("class Cart:\n    def total_price(self, tax): ...\n")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`Cart` has `total_price(tax)`.", []),
        ("`Cart.checkout` pays.", ["checkout"]),
        ("Call pay_now to pay.", ["pay_now"]),
        ("Call payNow() to pay.", ["payNow"]),
        ("It returns `None` or a `str`, like JavaScript and GitHub do.", []),
        ("Use `the total price` of it, e.g. and so on.", []),
        ("Use `Cart and then refund()`.", ["refund"]),
        ("``Basket`` is not there.", ["Basket"]),
    ],
)
def test_names_that_nothing_has_are_found(text: str, missing: list[str]) -> None:
    assert unknown_names(text, KNOWN) == missing


@pytest.mark.parametrize(
    "text",
    [
        *FORMS,
        "One sentence: what it does.",
        "It is one sentence, what it does",
        "and so on " * 60,
        "As an AI language model I cannot see it.",
        "Its key is sk-proj-abcdefghijklmnopqrstuvwxyz012345.",
    ],
)
def test_texts_that_are_none_are_refused(text: str) -> None:
    assert text_problem(text, KNOWN, Vault().holds_secrets)


def test_directions_that_say_nothing_are_dropped() -> None:
    notes = PageNotes(summary="", directions=("example", "Write it back to CSV."))
    kept, dropped = kept_directions(notes, KNOWN, Vault().holds_secrets)
    assert (kept, dropped) == (("Write it back to CSV.",), ["a direction: it says nothing"])


def test_only_what_the_file_defines_is_described_and_its_own_words_come_first() -> None:
    def defined(name: str, doc: str = "") -> OutlinedDefinition:
        return OutlinedDefinition(
            name=name, kind="function", signature=f"def {name}()", line=1, last_line=1, doc=doc
        )

    outline = SourceOutline((defined("a", "Says so itself."), defined("b"), defined("c")))
    file = SourceFile("a.py", "def a(): ...", "", outline)
    said = [("a", "Other words."), ("b", "Does it."), ("c", "Calls `nobody_knows`."), ("d", "Is invented.")]
    notes = [PieceNotes(about="", items=tuple(DescribedName(*each) for each in said))]
    found, dropped = described(file, notes, KNOWN, Vault().holds_secrets)
    assert [(each.name, each.does) for each in found] == [("a", ""), ("b", "Does it."), ("c", "")]
    assert dropped == ["what was said of c: these names are not in the project: nobody_knows"]


@pytest.mark.parametrize(
    "text",
    [
        '{"summary": "It adds."}',
        'Here it is:\n```json\n{"summary": "It adds.", "directions": []}\n```\nDone.',
        "{'summary': 'It adds.',}",
        '{"summary": "It adds.", "directions": ["more"]',
    ],
)
def test_replies_of_small_models_are_read(text: str) -> None:
    page = read_page(text)
    assert page is not None
    assert page.summary == "It adds."


def test_replies_that_fit_nothing_are_none() -> None:
    assert read_page("It adds.") is None
    assert read_piece('{"items": 3}') is None
    assert read_scores('{"accurate": 9, "complete": 5, "clear": 5}') is None
    assert read_scores('{"accurate": "4", "complete": 5, "clear": 5}') is not None

"""A write to a file whose earlier edits have no evidence is told, once, and again when that was forgotten."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.checks.unproven import untold
from mainspring.events import EVIDENCE_SOURCE, Compacted, NoteAdded, Recorded, SuiteEnded, Undone
from tests.checks.test_evidence_of_lines import ONE, THREE, TWO, checked, edit, review

EDITS = (edit(None, ONE), edit(ONE, TWO), edit(TWO, THREE))
NOTE = NoteAdded(
    text="Nothing has tested, checked, reviewed or run these since: m.py: 2 earlier edits",
    source=EVIDENCE_SOURCE,
)
BACK = (msgspec.structs.replace(edit(THREE, ONE), calls=()), Undone(to_seq=1, scope="both"))
PASSED = SuiteEnded(command="pytest", outcome="passed", cause="change")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (EDITS[:1], {}),
        (EDITS, {"m.py": 2}),
        ((*EDITS, checked("syntax")), {"m.py": 2}),
        ((EDITS[0], PASSED, *EDITS[1:]), {"m.py": 1}),
        ((*EDITS[:2], checked("ruff"), EDITS[2]), {}),
        ((*EDITS[:2], *review(), EDITS[2]), {}),
        ((*EDITS, NOTE), {}),
        ((*EDITS, NOTE, edit(THREE, ONE)), {}),  # told already
        ((*EDITS, NOTE, Compacted(summary="s", keep_from_seq=1), edit(THREE, ONE)), {"m.py": 3}),
        ((*EDITS, edit("x", "y", "other.py")), {}),  # not this write
        ((*EDITS, *BACK), {}),  # what was gone back over does not count
        ((*EDITS, *BACK, edit(ONE, TWO)), {"m.py": 1}),
        ((*EDITS, Undone(to_seq=1, scope="files")), {"m.py": 2}),  # nothing was put back
    ],
)
def test_a_write_after_edits_without_evidence_is_told_once(events: tuple[Any, ...], expected):
    assert untold([Recorded(seq, 0, event) for seq, event in enumerate(events, 1)]) == expected

"""Which changed lines have evidence after their last change: a fold of the journal."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from mainspring.checks.evidence_of_lines import ProvenFile, proven_files
from mainspring.events import (
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    ChangesChecked,
    CheckedFile,
    CheckFinding,
    FileChange,
    FilesChanged,
    FileState,
    Recorded,
    ReviewedFile,
    ReviewEnded,
    ReviewFinding,
    ReviewStarted,
    SuiteEnded,
)

CONTENTS: dict[str, bytes] = {}
ONE, TWO, THREE = "a = 1\nb = 2\n", "a = 1\nb = 3\n", "a = 1\nb = 3\nc = 4\n"


def state(text: str | None) -> FileState | None:
    if text is None:
        return None
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    CONTENTS[sha256] = data
    return FileState(blob=Blob(sha256=sha256, size=len(data)))


def edit(before: str | None, after: str | None, path: str = "m.py") -> FilesChanged:
    change = FileChange(path=path, kind="modified", before=state(before), after=state(after))
    return FilesChanged(calls=("c1",), changes=(change,))


def suite(outcome: Any, cause: Any = "change", **fields: Any) -> SuiteEnded:
    return SuiteEnded(command="pytest -q", outcome=outcome, cause=cause, **fields)


def checked(by: str, *findings: CheckFinding) -> ChangesChecked:
    return ChangesChecked(files=(CheckedFile(path="m.py", by=(by,), findings=findings),))


def shell(command: str, code: int) -> list[Any]:
    asked = CallAsked(call="c9", name="shell", arguments=f'{{"command": "{command}"}}')
    return [AssistantSaid(step=2, parts=(asked,)), CallEnded(call="c9", outcome="ok", exit_code=code)]


def review(*findings: ReviewFinding, failure: str = "") -> list[Any]:
    files = (ReviewedFile(path="m.py"),)
    return [
        ReviewStarted(review="r", subject="s", files=files),
        ReviewEnded(review="r", findings=findings, failure=failure),
    ]


def folded(*events: Any) -> ProvenFile:
    recorded = [Recorded(seq, 0, event) for seq, event in enumerate(events, 1)]
    (found,) = proven_files(recorded, CONTENTS)
    return found


def states(found: ProvenFile) -> list[tuple[str, str]]:
    return [(each.mark + each.text, each.state) for each in found.lines if each.mark != " "]


CHANGE = edit(ONE, TWO)
UNTESTED = CheckFinding(by="coverage", message="m", line=1, last_line=2, severity="warning")
BAD_LINE = CheckFinding(by="ruff", message="m", line=2)
FOUND = ReviewFinding(file="m.py", line=2, severity="high", title="t", why="w")


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([], "uncovered"),
        ([suite("passed")], "covered"),
        ([suite("failed", regressions=("t",))], "against"),
        ([suite("passed", cause="baseline")], "uncovered"),
        ([suite("slow")], "uncovered"),
        ([suite("failed", regressions=("t",)), suite("passed")], "covered"),  # the newest counts
        ([checked("ruff")], "covered"),
        ([checked("ruff", BAD_LINE)], "against"),
        ([checked("syntax")], "uncovered"),  # that it can be parsed is no evidence
        ([checked("secrets", CheckFinding(by="secrets", message="m", line=2))], "against"),
        (review(), "covered"),
        (review(FOUND), "against"),
        (review(failure="no answer"), "uncovered"),
        (shell("python m.py", 0), "covered"),
        (shell("python m.py", 1), "against"),
        (shell("ls", 0), "uncovered"),
        (shell("cat m.py", 0), "uncovered"),  # that it was shown is no evidence
        (shell("cd src && sed -n 1,9p m.py | head; git diff m.py || grep b m.py", 0), "uncovered"),
        (shell("for f in m.py; do /bin/cat $f\\n X=1 cat m.py; done", 0), "uncovered"),
        (shell("cat m.py && X=1 python m.py", 0), "covered"),
        (shell("grep pytest m.py; pip install pytest", 0), "uncovered"),
        (shell("cd sub && (pytest -q)", 0), "covered"),
        (shell("cat > t.txt <<'END'\\npython m.py\\nEND", 0), "uncovered"),  # text that is written is not run
        ([suite("passed"), checked("coverage")], "covered"),
        ([suite("passed"), checked("coverage", UNTESTED)], "uncovered"),  # no test runs it
        ([checked("coverage")], "uncovered"),
        ([checked("coverage", UNTESTED), *review()], "covered"),
        ([CHANGE.__class__(calls=("c2",), changes=()), suite("passed")], "covered"),
    ],
)
def test_a_changed_line_has_what_was_on_record_after_its_last_change(later, expected):
    assert states(folded(CHANGE, *later))[-1] == ("+b = 3", expected)
    # What was on record before the change says nothing of it.
    assert states(folded(*later, CHANGE))[-1] == ("+b = 3", "uncovered")


def test_that_a_command_wrote_a_file_is_no_evidence_for_it():
    wrote = msgspec.structs.replace(CHANGE, calls=("c9",))
    said, ended = shell("sed -i s/2/3/ m.py", 0)
    assert states(folded(said, wrote, ended))[-1] == ("+b = 3", "uncovered")
    said, ended = shell("sed -i s/2/3/ m.py && pytest -q", 0)
    assert states(folded(said, wrote, ended))[-1] == ("+b = 3", "covered")


def test_lines_are_numbered_by_line_feeds_as_linters_number_them():
    found = folded(
        edit("# a\x0c b\u2028 c\nb = 2\n", "# a\x0c b\u2028 c\nb = 3\n"), checked("ruff", BAD_LINE)
    )
    assert [(each.number, each.text) for each in found.lines if each.state == "against"][-1] == (2, "b = 3")


def test_tests_speak_for_the_lines_that_were_there_when_they_ran():
    found = folded(CHANGE, suite("passed"), edit(TWO, THREE))
    assert dict(states(found)) == {"-b = 2": "uncovered", "+b = 3": "covered", "+c = 4": "uncovered"}
    assert (found.covered, found.uncovered) == (1, 2)
    assert [(each.seq, each.lines, each.evidence) for each in found.edits] == [(1, 1, (2,)), (3, 1, ())]


def test_linters_and_reviews_speak_only_for_what_they_saw_last():
    found = folded(CHANGE, checked("ruff"), *review(), edit(TWO, THREE))
    assert {state for _, state in states(found)} == {"uncovered"}


def test_a_finding_is_against_its_line_and_not_against_the_others():
    found = folded(edit(ONE, THREE), checked("ruff", BAD_LINE))
    assert dict(states(found)) == {"-b = 2": "covered", "+b = 3": "against", "+c = 4": "covered"}


def test_new_deleted_and_binary_files_are_told():
    assert states(folded(edit(None, ONE))) == [("+a = 1", "uncovered"), ("+b = 2", "uncovered")]
    assert states(folded(edit(ONE, None), suite("passed"))) == [("-a = 1", "covered"), ("-b = 2", "covered")]
    assert folded(edit("a\0b", "c\0d")).problem == "its lines are not kept"

"""Blocks that a change repeats are told with where they stand already; small things and old ones are not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring.checks import ChangedFile, NotChecked, duplication, new_findings
from mainspring.checks.duplication import Duplication
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from tests.checks.test_after_change import configured, notes, write
from tests.stage import staged


def block(name: str, count: int = 9) -> str:
    return "".join(f"{name}_{number} = compute_the_value_of({name}, {number})\n" for number in range(count))


def repeated(place: Path, path: str, before: str | None, after: str) -> list[tuple[int, str]]:
    changed = ChangedFile(path, before.encode() if before is not None else None, after.encode())
    checker = Duplication(Files(policy(place, home=place)))
    assert checker.takes(path)
    found = asyncio.run(new_findings(checker, changed))
    return [(each.line, each.message.rpartition(" ")[2]) for each in found]


CASES = [
    (None, "x = 1\n" + block("one"), [(2, "other.py:3")]),
    (
        block("two"),
        block("two") + "".join(f"    {line}\n" for line in block("one").splitlines()),
        [(10, "other.py:3")],
    ),
    (block("one"), block("one") + "x = 1\n", []),  # it stood there before
    (None, block("one", 5), []),  # too short
    (None, block("three") + "\n# between\n" + block("three"), [(1, "a.py:12")]),  # in itself
    (None, "import os\n" * 20, []),
]


@pytest.mark.parametrize(("before", "after", "expected"), CASES)
def test_blocks_that_stand_elsewhere_are_told(
    tmp_path: Path, before: str | None, after: str, expected: list[tuple[int, str]]
) -> None:
    (tmp_path / "other.py").write_text(f"import os\n\n{block('one', 20)}", encoding="utf-8")
    (tmp_path / "test_other.py").write_text(block("one", 20), encoding="utf-8")
    (tmp_path / "other.js").write_text(block("two", 20), encoding="utf-8")
    assert repeated(tmp_path, "a.py", before, after) == expected


def test_a_project_that_takes_too_long_is_told_as_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplication, "_LIMIT_S", -1.0)
    (tmp_path / "other.py").write_text(block("one"), encoding="utf-8")
    with pytest.raises(NotChecked, match="takes more than"):
        repeated(tmp_path, "a.py", None, block("one"))


def test_a_session_is_told_unless_it_is_off(tmp_path: Path) -> None:
    made = write("a.go", "package a\n" + block("one").replace("=", ":="))
    files = {"b.go": "package b\n" + block("one").replace("=", ":=")}
    stage = staged(tmp_path, files, made, "Done.")
    stage.run("Go", config=configured(tmp_path), mode="auto")
    assert any(
        "a.go:2: warning: 8 lines or more from here stand also in b.go:2" in note for note in notes(stage)
    )
    quiet = staged(tmp_path / "off", files, made, "Done.")
    quiet.run("Go", config=configured(tmp_path / "off", duplication="off"), mode="auto")
    assert not any("stand also" in note for note in notes(quiet))

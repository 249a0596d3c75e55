"""Lines that the output of a command points to, as far as they are files of the workspace."""

from __future__ import annotations

import pytest

from mainspring.workspace.fault_places import fault_places

FILES = {
    "src/a.py",
    "src/b.py",
    "tests/test_a.py",
    "lib/c.js",
    "main.go",
    "src/m.c",
    "src/x.rs",
    "t.ts",
    "run.sh",
}


def places(output: str, recent: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    found = fault_places(output, "/w", FILES.__contains__, recent)
    return [(each.path, each.line) for each in found]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('  File "/w/src/a.py", line 12, in add', ("src/a.py", 12)),
        ("tests/test_a.py:5: AssertionError", ("tests/test_a.py", 5)),
        ("    at Object.<anonymous> (/w/lib/c.js:10:3)", ("lib/c.js", 10)),
        ("    at file:///w/lib/c.js:7:1", ("lib/c.js", 7)),
        ("main.go:14:2: undefined: x", ("main.go", 14)),
        ("src/m.c:3:5: error: expected ';'", ("src/m.c", 3)),
        ("  --> src/x.rs:4:5", ("src/x.rs", 4)),
        ("t.ts(3,4): error TS2322: no", ("t.ts", 3)),
        ("run.sh: line 7: foo: command not found", ("run.sh", 7)),
    ],
)
def test_runners_and_compilers_name_lines_in_their_own_ways(line: str, place: tuple[str, int]) -> None:
    assert places(f"{line}\n") == [place]


def test_what_is_elsewhere_or_of_others_is_left_out() -> None:
    output = """\
  File "/usr/lib/python3/unittest/case.py", line 59, in x
  File "/w/.venv/lib/site-packages/src/a.py", line 1, in x
  File "../src/a.py", line 3, in x
http://example.org:80 at 12:30:11, version 3.11:2
gone.py:4: error
"""
    assert places(output) == []


def test_code_comes_before_tests_and_what_was_changed_lately_first() -> None:
    output = "src/a.py:1: x\ntests/test_a.py:2: x\nsrc/b.py:3: x\nlib/c.js:4: x\nsrc/a.py:1: x\n"
    assert places(output) == [("src/a.py", 1), ("lib/c.js", 4), ("src/b.py", 3), ("tests/test_a.py", 2)]
    assert places(output, ("src/b.py",))[0] == ("src/b.py", 3)

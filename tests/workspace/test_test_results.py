"""The tests of a run, read from what each runner prints."""

from __future__ import annotations

import pytest

from mainspring.workspace.test_results import (
    TestResults,
    broken,
    excerpt,
    missing,
    read_results,
    unloaded,
    verbose,
)

PYTEST = """\
..F                                                                [100%]
=================================== FAILURES ===================================
________________________________ test_p[a b - c] _______________________________
test_a.py:4: in test_p
E   AssertionError: assert 'a b - c' == 'd'
=========================== short test summary info ============================
PASSED test_a.py::test_ok
PASSED test_a.py::test_p[d]
SKIPPED [1] test_a.py:5: unconditional skip
XFAIL test_a.py::test_x
FAILED test_a.py::test_p[a b - c] - AssertionError: assert 'a b - c' == 'd'
ERROR test_b.py
ERROR test_a.py::test_e - ValueError: no
2 failed, 2 passed in 0.10s
"""
UNITTEST = """\
test_doc (test_u.A.test_doc)
A line about it. ... FAIL
test_ok (test_u.A.test_ok) ... something that it prints
more of it
ok
test_old (test_u.A) ... ok
test_s (test_u.A.test_s) ... skipped 'why'
test_sub (test_u.A.test_sub) ...
  test_sub (test_u.A.test_sub) (i=1) ... FAIL
setUpClass (test_u.B) ... ERROR
test_b (unittest.loader._FailedTest.test_b) ... ERROR

======================================================================
FAIL: test_doc (test_u.A.test_doc)
----------------------------------------------------------------------
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 5 tests in 0.001s

FAILED (failures=2, errors=2, skipped=1)
"""
GO = """\
=== RUN   TestAdd
--- PASS: TestAdd (0.00s)
=== RUN   TestTable
    --- FAIL: TestTable/zero (0.00s)
        add_test.go:9: got 1
--- FAIL: TestTable (0.00s)
--- SKIP: TestLater (0.00s)
FAIL
FAIL\texample.com/calc\t0.002s
# example.com/other
FAIL\texample.com/other [build failed]
FAIL
"""
TAP = """\
TAP version 13
# Subtest: adds
ok 1 - adds
  ---
  duration_ms: 0.9
  ...
# Subtest: suite
    # Subtest: inner
    ok 1 - inner
    # Subtest: broken
    not ok 2 - broken
      ---
      error: 'x'
      ...
    ok 3 - later # SKIP
    1..3
not ok 2 - suite
1..2
"""
CARGO = """\
running 3 tests
test tests::i ... ignored
test tests::adds ... ok
test tests::no ... FAILED

failures:

---- tests::no stdout ----
thread 'tests::no' panicked at src/lib.rs:7:86:
"""
SPEC = """\
✔ adds # 1 (0.99ms)
▶ suite
  ✔ inner (0.18ms)
  ✖ broken (0.11ms)
    Error: x
  ﹣ later (0.12ms) # SKIP
✖ suite (0.87ms)
ℹ tests 3

✖ failing tests:

✖ broken (0.11ms)
"""
JEST = """\
PASS  web/sum.test.js
FAIL  web/sort.test.js
  ● sorts numbers

    expect(received).toBe(expected)
"""
VITEST = " \x1b[32m✓\x1b[39m web/sum.test.ts (2 tests) 3ms\n ✗ web/sort.test.ts (1 test | 1 failed) 5ms\n"


@pytest.mark.parametrize(
    ("output", "passed", "failed", "skipped"),
    [
        (
            PYTEST,
            ["test_a.py::test_ok", "test_a.py::test_p[d]"],
            ["test_a.py::test_p[a b - c]", "test_b.py", "test_a.py::test_e"],
            ["test_a.py::test_x"],
        ),
        (
            UNITTEST,
            ["test_u.A.test_ok", "test_u.A.test_old"],
            ["test_u.A.test_doc", "test_u.A.test_sub", "test_u.B", "test_b"],
            ["test_u.A.test_s"],
        ),
        (
            GO,
            ["example.com/calc::TestAdd"],
            ["example.com/calc::TestTable/zero", "example.com/calc::TestTable", "example.com/other"],
            ["example.com/calc::TestLater"],
        ),
        (TAP, ["adds", "suite > inner"], ["suite > broken", "suite"], ["suite > later"]),
        (CARGO, ["tests::adds"], ["tests::no"], ["tests::i"]),
        (SPEC, ["adds # 1", "suite > inner"], ["suite > broken", "suite"], ["suite > later"]),
        (JEST, ["web/sum.test.js"], ["web/sort.test.js"], []),
        (VITEST, ["web/sum.test.ts"], ["web/sort.test.ts"], []),
        ("make: *** [Makefile:2: test] Error 1\n", [], [], []),
        ("", [], [], []),
    ],
)
def test_every_runner_names_its_tests(
    output: str, passed: list[str], failed: list[str], skipped: list[str]
) -> None:
    found = read_results(output)
    assert (list(found.passed), list(found.failed), list(found.skipped)) == (passed, failed, skipped)


def test_a_test_is_broken_when_it_or_what_holds_it_fails() -> None:
    before = TestResults(passed=("a.py::A::one", "a.py::A::two", "b.py::three", "m.B.four", "s > t"))
    assert broken(before, TestResults(failed=("a.py::A::one",))) == ["a.py::A::one"]
    assert broken(before, TestResults(failed=("a.py",))) == ["a.py::A::one", "a.py::A::two"]
    assert broken(before, TestResults(failed=("m", "s"))) == ["m.B.four", "s > t"]
    assert broken(before, TestResults(failed=("new",))) == []
    now = TestResults(passed=("a.py::A::two", "s > t"), failed=("b.py",), skipped=("m.B.four",))
    assert missing(before, now) == ["a.py::A::one", "m.B.four"]


def test_tests_of_a_file_that_no_longer_loads_are_broken_also_where_they_are_not_named_by_it() -> None:
    before = TestResults(passed=("adds", "finds"))
    assert unloaded(before, TestResults(passed=("finds",), failed=("cart.test.js",))) == ["adds"]
    assert unloaded(before, TestResults(passed=("finds",), failed=("another",))) == []
    assert unloaded(before, TestResults(passed=("adds", "finds"), failed=("new.test.js",))) == []


def test_what_is_said_about_a_test_is_found() -> None:
    assert "'a b - c' == 'd'" in excerpt(PYTEST, "test_a.py::test_p[a b - c]")
    assert "1 != 2" in excerpt(UNITTEST, "test_u.A.test_doc")
    assert "got 1" in excerpt(GO, "example.com/calc::TestTable/zero")
    assert "panicked" in excerpt(CARGO, "tests::no")
    assert excerpt("", "test_a.py::test_ok") == ""


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("python3 -m unittest", "python3 -m unittest -v"),
        ("python3 -m unittest discover -s tests", "python3 -m unittest discover -s tests -v"),
        ("go test ./...", "go test -v ./..."),
        ("pytest tests/test_a.py", "pytest tests/test_a.py"),
        ("make test && python3 -m unittest", "make test && python3 -m unittest"),
        ("go test ./... | tee log", "go test ./... | tee log"),
    ],
)
def test_a_runner_is_asked_for_names_where_it_needs_to_be(command: str, wanted: str) -> None:
    assert verbose(command) == wanted

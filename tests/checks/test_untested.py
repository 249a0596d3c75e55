"""Changed lines that no test runs are told, by real coverage.py and node, from the runs that are made anyway; what
was not measured is recorded as not checked."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.operations.checks import checks_of
from mainspring.app.operations.evidence import evidence_of
from mainspring.app.operations.risk import session_risk
from mainspring.app.stores import sessions_of
from mainspring.events import CHECKS_SOURCE, ChangesChecked, CheckFinding, SuiteEnded, TurnEnded
from mainspring.settings import Config
from mainspring.testing import Stage
from mainspring.workspace.coverage import Coverage, FileCoverage, lost, read_measured, untested_of
from tests.checks.test_regressions import CALC, PROJECT, guarded, notes, ran, shell, write
from tests.npm import NODE
from tests.stage import staged

HALVE = "\ndef halve(number):\n    if number is None:\n        raise ValueError(\n            'none')\n    return number / 2\n"
HALVED = "import unittest\nimport calc\n\nclass H(unittest.TestCase):\n    def test_half(self):\n        self.assertEqual(calc.halve(4), 2)\n"


def measuring(folder: Path, *programs: Path, **checks: Any) -> Config:
    config = guarded(folder, **{"coverage": "on", "after_change": "off", **checks})
    path = ":".join(map(str, [*programs, "/usr/local/bin", "/usr/bin", "/bin"]))
    return msgspec.structs.replace(config, environment={**config.environment, "PATH": path})


PYTHON = Path(sys.executable).parent


def standing(stage: Stage) -> dict[str, tuple[CheckFinding, ...]]:
    found: dict[str, tuple[CheckFinding, ...]] = {}
    for event in stage.events(ChangesChecked):
        found |= {file.path: file.findings for file in event.files if "coverage" in file.by}
    return {path: each for path, each in found.items() if each}


def unchecked(stage: Stage) -> list[str]:
    return [each for event in stage.events(ChangesChecked) for each in event.not_checked]


def test_untested_lines_of_a_change_are_told_once_and_go_when_a_test_runs_them(tmp_path: Path) -> None:
    replies = (write("calc.py", CALC + HALVE), "Done.", write("test_halve.py", HALVED), "Now it is.")
    stage = staged(tmp_path, PROJECT, *replies)
    config = measuring(tmp_path, PYTHON)
    stage.sessions = sessions_of(config)
    stage.run("Add halve", config=config, mode="auto")
    assert ran(stage) == [("baseline", "passed"), ("done", "passed"), ("done", "passed")]
    (told,) = notes(stage, CHECKS_SOURCE)
    assert (
        "calc.py:5-8: warning: no test runs these 4 lines, from `if number is None:` [coverage untested]"
        in told
    )
    assert "Tests run " in told
    assert "before this turn it was 100.0 %" in told
    (finding,) = standing(stage)["calc.py"]
    assert (finding.line, finding.last_line) == (6, 7)  # the test does not raise
    assert stage.events(TurnEnded)[-1].ending == "done"
    assert not unchecked(stage)
    overview = asyncio.run(checks_of(config, stage.session))
    assert overview.untested == 2
    assert [each.by for each in overview.times] == ["tests"]
    risk = asyncio.run(session_risk(config, stage.session)).risk
    reasons = [each.detail for each in risk.reasons if each.what == "untested"]
    assert reasons == ["2 added lines that no test reaches"]
    assert "which lines tests reach" not in risk.not_known
    files = asyncio.run(evidence_of(config, stage.session)).files
    (calc,) = [each for each in files if each.path == "calc.py"]
    states = {each.number: (each.state, each.by) for each in calc.lines if each.mark == "+"}
    assert states[5] == ("covered", ("tests",))
    assert states[6] == states[7] == ("uncovered", ("no test runs it",))


def test_untested_lines_go_with_a_file_that_is_renamed(tmp_path: Path) -> None:
    renamed = shell("mv calc.py sums.py; sed -i 's/calc/sums/g' test_calc.py shop.py")
    stage = staged(tmp_path, PROJECT, write("calc.py", CALC + HALVE), "Done.", renamed, *["Done."] * 3)
    stage.run("Add halve", config=measuring(tmp_path, PYTHON), mode="auto")
    assert [*standing(stage)] == ["sums.py"]


def test_lines_that_tests_no_longer_run_are_told_of_files_that_were_not_changed(tmp_path: Path) -> None:
    stage = staged(tmp_path, PROJECT, shell("rm test_shop.py"), "Done.", "There is no need.")
    stage.run("Go", config=measuring(tmp_path, PYTHON), mode="auto")
    assert [(each.rule, each.line) for each in standing(stage)["shop.py"]] == [("lost", 1), ("lost", 3)]
    assert "shop.py:3-4: warning: tests ran these 2 lines before" in notes(stage, CHECKS_SOURCE)[-1]


def test_what_is_not_measured_is_told_and_recorded_once(tmp_path: Path) -> None:
    stage = staged(tmp_path, PROJECT, write("calc.py", CALC + HALVE), "Done.")
    stage.run("Go", config=measuring(tmp_path), mode="auto")
    told = "which changed lines tests run: neither coverage.py (7.13 or newer) nor node measured"
    assert [each.startswith(told) for each in unchecked(stage)] == [True]
    (note,) = notes(stage, CHECKS_SOURCE)
    assert note.startswith(f"Not checked: {told}")


def test_nothing_is_measured_when_it_is_off(tmp_path: Path) -> None:
    stage = staged(tmp_path, PROJECT, write("calc.py", CALC + HALVE), "Done.")
    stage.run("Go", config=measuring(tmp_path, PYTHON, coverage="off"), mode="auto")
    assert {(each.coverage, each.not_covered) for each in stage.events(SuiteEnded)} == {(None, "")}
    assert not standing(stage)


def test_node_measures_its_own_tests(tmp_path: Path) -> None:
    files = {
        "calc.js": "exports.add = (a, b) => a + b\n",
        "calc.test.js": "const { test } = require('node:test')\nconst { add } = require('./calc.js')\n"
        "test('add', () => { if (add(1, 2) !== 3) throw new Error('x') })\n",
    }
    divide = "exports.div = function (a, b) {\n  // no zero\n  if (b === 0) {\n    throw new Error('b')\n  }\n  return a / b\n}\n"
    stage = staged(tmp_path, files, shell(f"cat >> calc.js <<'END'\n{divide}END"), "Done.", "Fine.")
    stage.run("Add div", config=measuring(tmp_path, NODE.parent), mode="auto")
    ended = stage.events(SuiteEnded)[-1]
    assert ended.cause in ("done", "change"), ended.not_covered
    assert [(each.line, each.last_line) for each in standing(stage)["calc.js"]] == [(4, 5), (7, 7)]


def test_lines_that_cannot_run_are_not_untested() -> None:
    text = (
        '"""Doc."""\nX = 1\n\n# comment\ndef f(\n    a,\n):\n    """Doc."""\n    return (\n        a\n    )\n'
    )
    measured = Coverage("coverage.py 7", {"a.py": FileCoverage(((2, 2), (5, 5)), ((9, 9),))})
    assert untested_of("a.py", text, measured, range(1, 12)) == [(9, 11)]
    assert untested_of("a.py", text, measured, [10]) == [(10, 10)]
    assert untested_of("new.py", text, measured, range(1, 12)) == [(2, 2), (5, 7), (9, 11)]
    assert untested_of("new.js", text, measured, range(1, 12)) == []
    assert untested_of("broken.py", "def (", measured, [1]) == []


def test_a_file_that_is_nested_too_deeply_has_no_untested_lines() -> None:
    text = f"x = {'+'.join(['1'] * 4000)}\n"
    assert untested_of("a.py", text, Coverage("coverage.py"), [1]) == []


def test_only_lines_of_unchanged_files_can_be_lost() -> None:
    before = Coverage("x", {"a.py": FileCoverage(((1, 4),)), "b.py": FileCoverage(((1, 1),))})
    now = Coverage("x", {"a.py": FileCoverage(((1, 2),), ((3, 4),)), "b.py": FileCoverage((), ((1, 1),))})
    assert lost(before, now, {"b.py": None}) == {"a.py": [(3, 4)]}


def test_a_report_that_is_cut_or_broken_is_not_known() -> None:
    assert read_measured("1 passed", "m", "pytest")[1] == (
        "the output of the tests was too long to hold what they measured"
    )
    assert read_measured("1 passed\nm\n{", "m", "pytest") == ("1 passed", "what was measured cannot be read")
    assert read_measured("1 passed", "", "pytest") == ("1 passed", "")

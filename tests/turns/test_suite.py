"""Tests of a project that run by themselves: for what a task names, and after a change; in the sandbox, only
what needs no question, and never again when they are slow or cannot run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.checks.settings import ChecksSettings
from mainspring.context.work import WorkSettings
from mainspring.events import (
    PRIMING_SOURCE,
    TESTS_SOURCE,
    CallEnded,
    NoteAdded,
    SuiteEnded,
    SuiteStarted,
)
from mainspring.settings import Config, load_config
from mainspring.testing import Stage, tool_call
from mainspring.workspace.affected import affected_command, command_for, is_test
from mainspring.workspace.project import Project, asked_test, look_at, project_below
from tests.stage import staged

WRONG = "def add(first, second):\n    return first - second\n"
RIGHT = WRONG.replace("-", "+")
TEST = """\
import unittest
from calc import add

class Adding(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 2), 4)
"""
UNRELATED = (
    "import unittest\n\nclass Other(unittest.TestCase):\n    def test_no(self):\n        self.fail('no')\n"
)


def working(folder: Path, **work: Any) -> Config:
    config = load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": "/usr/local/bin:/usr/bin:/bin"})
    settings = msgspec.structs.replace(
        config.settings, work=WorkSettings(**work), checks=ChecksSettings(regressions="off")
    )
    return msgspec.structs.replace(config, settings=settings)


def notes(stage: Stage, source: str) -> list[str]:
    return [note.text for note in stage.events(NoteAdded) if note.source == source]


def edit(new: str) -> Any:
    return tool_call("write", path="calc.py", content=new)


PROJECT = {"calc.py": WRONG, "test_calc.py": TEST, "test_other.py": UNRELATED}


@pytest.mark.parametrize(
    "task", ["Mach test_calc.py grün", "让test_calc.py通过", "Fix test_calc.py::test_add"]
)
def test_the_tests_that_a_task_names_are_run_first(tmp_path: Path, task: str) -> None:
    stage = staged(tmp_path, PROJECT, "Done.")
    stage.run(task, config=working(tmp_path, test_timeout_s=300.0), mode="auto")
    (started,), (ended,) = stage.events(SuiteStarted), stage.events(SuiteEnded)
    assert (started.cause, started.command) == ("task", "python3 -m unittest test_calc.py")
    assert (ended.outcome, ended.exit_code) == ("failed", 1)
    (note,) = notes(stage, PRIMING_SOURCE)
    assert "FAILED (failures=1)" in note
    assert "FAILED (failures=1)" in str(stage.sent(0)[-1])
    assert "return first - second" in note  # what the test is a test of


def test_nothing_is_run_that_would_need_a_question(tmp_path: Path) -> None:
    stage = staged(tmp_path, PROJECT, "Done.")
    stage.run("Fix test_calc.py", config=working(tmp_path), mode="ask")
    stage.run("Fix test_calc.py", config=working(tmp_path), mode="plan")
    stage.run("Fix test_calc.py", config=working(tmp_path), mode="auto", tools=["read"])
    assert not stage.events(SuiteStarted)


def changed(folder: Path, *contents: str, files: dict[str, str] | None = None, **work: Any) -> Stage:
    replies = (tool_call("read", path="calc.py"), *map(edit, contents), "Done.")
    stage = staged(folder, files or PROJECT, *replies)
    config = working(folder, priming="off", **{"after_change": "affected", "test_timeout_s": 300.0} | work)
    stage.run("Go", config=config, mode="auto")
    return stage


def test_after_a_change_the_affected_tests_are_told_when_they_say_something_else(tmp_path: Path) -> None:
    stage = changed(tmp_path, WRONG + "\n", WRONG + "\n\n", RIGHT)
    assert {ended.outcome for ended in stage.events(CallEnded)} == {"ok"}
    ran = stage.events(SuiteEnded)
    assert [(item.command, item.outcome) for item in ran] == [
        ("python3 -m unittest test_calc.py", outcome) for outcome in ("failed", "failed", "passed")
    ]
    told = notes(stage, TESTS_SOURCE)
    assert ["exit code 1" in text for text in told] == [True, False]
    assert "exit code 0" in str(stage.sent(-1)[-1])


@pytest.mark.parametrize(("profile", "runs"), [("small", 1), ("standard", 0)])
def test_unasked_changes_are_tested_for_small_models_alone(tmp_path: Path, profile: str, runs: int) -> None:
    stage = changed(tmp_path, RIGHT, after_change=None, profile=profile)
    assert (stage.workspace / "calc.py").read_text(encoding="utf-8") == RIGHT
    assert len(stage.events(SuiteEnded)) == runs


def test_a_step_that_changes_nothing_runs_nothing(tmp_path: Path) -> None:
    assert not changed(tmp_path).events(SuiteStarted)


def test_tests_that_are_too_slow_run_once_in_a_session(tmp_path: Path) -> None:
    slow = {"calc.py": WRONG, "test_calc.py": "import unittest, calc, time\ntime.sleep(600)\n"}
    stage = changed(tmp_path, RIGHT, WRONG, files=slow, test_timeout_s=0.5)
    assert [item.outcome for item in stage.events(SuiteEnded)] == ["slow"]
    assert not notes(stage, TESTS_SOURCE)


def test_tests_that_a_change_keeps_from_ending_have_failed(tmp_path: Path) -> None:
    endless = "import time\ntime.sleep(600)\n"
    stage = staged(tmp_path, PROJECT, edit(endless), edit(RIGHT), "Done.")
    config = working(tmp_path, after_change="affected", test_timeout_s=3.0)
    stage.run("Fix test_calc.py", config=config, mode="auto")
    ran = [item for item in stage.events(SuiteEnded) if not item.is_known]
    if ran[0].outcome == "slow":
        pytest.skip("this machine is too busy to run one test in six seconds")
    assert [item.outcome for item in ran] == ["failed", "failed", "passed"]
    told = notes(stage, TESTS_SOURCE)
    assert "probably never ends" in told[0]
    assert "exit code 0" in told[1]


def test_a_runner_that_is_not_there_is_tried_once(tmp_path: Path) -> None:
    package = '{"scripts": {"test": "no-such-runner-anywhere"}}'
    stage = changed(tmp_path, RIGHT, WRONG, files={"calc.py": WRONG, "package.json": package})
    assert [item.outcome for item in stage.events(SuiteEnded)] == ["unusable"]
    assert not notes(stage, TESTS_SOURCE)


def test_what_tests_do_to_files_is_on_record_and_can_be_undone(tmp_path: Path) -> None:
    writing = TEST + "open('left.txt', 'w').write('x')\n"
    stage = changed(tmp_path, RIGHT, files={"calc.py": WRONG, "test_calc.py": writing})
    assert (stage.workspace / "left.txt").exists()
    assert len(stage.events(SuiteEnded)) == 1

    async def back() -> None:
        async with stage.open() as session:
            await session.undo("both")

    asyncio.run(back())
    assert not (stage.workspace / "left.txt").exists()
    assert (stage.workspace / "calc.py").read_text(encoding="utf-8") == WRONG


@pytest.mark.parametrize(
    ("task", "test"),
    [
        ("Mach es. Test: `sh check.sh`", "sh check.sh"),
        ("实现它。测试命令:`node test.js`", "node test.js"),
        ("Fix it:\n```\npython3 -m unittest -q\n```", "python3 -m unittest -q"),
        ("Fix it.\n$ make test", "make test"),
        ("`uv run pytest -q` schlägt fehl", "uv run pytest -q"),
        ("Fix `PYTHONPATH=src pytest -k 'a or b'`", "PYTHONPATH=src pytest -k 'a or b'"),
        ("修复 `poetry run pytest`", "poetry run pytest"),
        ("make the tests pass", "known"),
        ("Remove `rm -rf test` and `make test; id`", "known"),
        ("Write `test.sh`, which prints `node`", "known"),
    ],
)
def test_the_test_command_that_a_task_gives_comes_first(task: str, test: str) -> None:
    assert asked_test(Project(test="known"), task).test == test


def test_a_test_command_that_only_the_task_gives_is_run_after_a_change(tmp_path: Path) -> None:
    files = {"calc.py": WRONG, "try.sh": "grep -q '+' calc.py\n"}
    stage = staged(tmp_path, files, tool_call("read", path="calc.py"), edit(RIGHT), "Done.")
    config = working(tmp_path, profile="small", test_timeout_s=300.0)
    stage.run("Richte calc.py. `sh ./try.sh --check`", config=config, mode="auto")
    assert [ended.outcome for ended in stage.events(SuiteEnded)] == ["failed", "passed"]


def test_tests_of_a_project_in_a_folder_run_there_when_the_root_has_none(tmp_path: Path) -> None:
    files = {
        "api/pyproject.toml": "[project]\n",
        "api/calc.py": WRONG,
        "api/test_calc.py": TEST,
        "notes.md": "",
    }
    replies = (
        tool_call("read", path="api/calc.py"),
        tool_call("write", path="api/calc.py", content=RIGHT),
        "Done.",
    )
    stage = staged(tmp_path, files, *replies)
    stage.run("Go", config=working(tmp_path, after_change="affected", test_timeout_s=300.0), mode="auto")
    (ended,) = stage.events(SuiteEnded)
    assert (ended.command, ended.outcome) == ("cd api && python3 -m unittest test_calc.py", "passed")


def test_tests_find_the_sources_of_a_project_that_is_not_installed(tmp_path: Path) -> None:
    files = {"src/calc.py": WRONG, "tests/test_calc.py": TEST}
    replies = (
        tool_call("read", path="src/calc.py"),
        tool_call("write", path="src/calc.py", content=RIGHT),
        "Done.",
    )
    stage = staged(tmp_path, files, *replies)
    stage.run("Go", config=working(tmp_path, after_change="affected", test_timeout_s=300.0), mode="auto")
    (ended,) = stage.events(SuiteEnded)
    assert ended.command == "PYTHONPATH=src python3 -m unittest discover -s tests -p test_calc.py"
    assert (ended.outcome, ended.passed) == ("passed", 1)


@pytest.mark.parametrize("changed", [["a/x.py", "b/y.py"], ["x.py"], ["none/x.py"], []])
def test_files_of_no_single_project_below_have_no_tests(tmp_path: Path, changed: list[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pytest.ini").write_text("", encoding="utf-8")
    assert not project_below(tmp_path, changed).test


PYTEST = Project(test="pytest")


@pytest.mark.parametrize(
    ("project", "changes", "command"),
    [
        (PYTEST, ["src/shop/basket.py"], "pytest tests/test_basket.py tests/test_all.py"),
        (PYTEST, ["tests/test_basket.py"], "pytest tests/test_basket.py"),
        (PYTEST, ["src/shop/unknown.py"], "pytest"),
        (PYTEST, ["README.md"], ""),
        (Project(), ["src/shop/basket.py"], ""),
        (Project(test="npm test", script="node --test"), ["web/sort.js"], "npm test -- web/sort.test.js"),
        (Project(test="npm test", script="make all"), ["web/sort.js"], "npm test"),
        (Project(test="node --test"), ["web/sort.js"], "node --test web/sort.test.js"),
        (Project(test="go test ./..."), ["pkg/a.go", "main.go"], "go test . ./pkg"),
        (Project(test="cargo test"), ["src/lib.rs"], "cargo test"),
        (Project(test="make test"), ["src/shop/basket.py"], "make test"),
    ],
)
def test_a_change_names_the_tests_that_it_may_affect(
    project: Project, changes: list[str], command: str
) -> None:
    texts = {
        "tests/test_basket.py": "",
        "tests/test_all.py": "from shop import basket\n",
        "tests/test_none.py": "import os\n",
        "web/sort.test.js": "import { sort } from './sort.js'\n",
    }
    paths = ["README.md", "src/shop/basket.py", "web/sort.js", *texts]
    assert affected_command(project, paths, changes, lambda path: texts.get(path, "")) == command


def test_ids_and_strange_names_are_quoted_for_the_shell() -> None:
    assert command_for(PYTEST, ["tests/test_a.py::test_b"]) == "pytest tests/test_a.py::test_b"
    assert command_for(PYTEST, ["tests/test_$(id).py"]) == "pytest 'tests/test_$(id).py'"


@pytest.mark.parametrize(
    ("files", "test"),
    [
        ({"test_a.py": "def test_a(): ...\n"}, "python3 -m pytest"),
        ({"test_a.py": "import os, unittest\n"}, "python3 -m unittest"),
        ({"test_a.py": "from unittest import mock\ndef test_a(): ...\n"}, "python3 -m pytest"),
        ({"tests/test_a.py": "import unittest\n"}, "python3 -m unittest discover -s tests"),
        ({"pytest.ini": "[pytest]\n"}, "pytest"),
        ({"setup.cfg": "[tool:pytest]\n"}, "pytest"),
        ({"noxfile.py": ""}, "nox"),
        ({"test/a.test.js": ""}, "node --test"),
        ({"test.js": ""}, "node test.js"),
        ({"test.sh": ""}, "bash test.sh"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, ""),
        ({"notes.txt": ""}, ""),
        (
            {"pyproject.toml": "[project]\n", "tests/unit/test_a.py": "def test_a(): ...\n"},
            "python3 -m pytest",
        ),
        ({"pyproject.toml": '[tool.poetry.group.dev.dependencies]\npytest = "*"\n'}, "pytest"),
        ({"pyproject.toml": '[tool.pdm.dev-dependencies]\ntest = ["pytest"]\n'}, "pytest"),
        ({"requirements-dev.txt": "pytest\n"}, "python3 -m pytest"),
        ({"tox.ini": "[tox]\n", "tests/test_a.py": "def test_a(): ...\n"}, "python3 -m pytest"),
        ({"tox.ini": "[tox]\n"}, "tox"),
        ({"tests.py": "import unittest\n"}, "python3 -m unittest"),
        ({"tests.py": "def test_a(): ...\n"}, "python3 -m pytest tests.py"),
        ({"tests.py": "print(1)\n"}, ""),
        ({"test_a.py": "import a\nassert a.b() == 1\n"}, "python3 test_a.py"),
        ({"tests/test_a.py": "import a\nassert a.b() == 1\n"}, "PYTHONPATH=. python3 tests/test_a.py"),
        ({"test_a.py": "assert 1\n", "test_b.py": "def test_b(): ...\n"}, "python3 -m pytest"),
        ({"src/p/a.py": "", "tests/test_a.py": "def test_a(): ...\n"}, "PYTHONPATH=src python3 -m pytest"),
        ({"src/p/a.py": "", "pytest.ini": "[pytest]\npythonpath = src\n"}, "pytest"),
        (
            {"pytest.ini": "[pytest]\n", ".venv/bin/python": "", ".venv/bin/pytest": ""},
            ".venv/bin/python -m pytest",
        ),
        ({"pytest.ini": "[pytest]\n", ".venv/bin/python": ""}, "pytest"),
        ({"Makefile": "test := 1\nall:\n"}, ""),
        ({"Makefile": "all test: build\n"}, "make test"),
        ({"GNUmakefile": "check:\n"}, "make check"),
        ({"justfile": "build:\n    cc\n"}, ""),
        ({"justfile": "test name='':\n    cc\n"}, "just test"),
        ({"build.gradle": "", "gradlew": ""}, "./gradlew test"),
        ({"deno.json": "{}"}, "deno test"),
        ({".rspec": "", "Gemfile": ""}, "bundle exec rspec"),
    ],
)
def test_the_test_command_is_known_from_files(tmp_path: Path, files: dict[str, str], test: str) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert look_at(tmp_path).test == test


def test_tests_are_known_by_name_and_place() -> None:
    tests = ("tests/test_a.py", "a_test.py", "src/a.test.ts", "a.spec.js", "pkg/a_test.go", "test/a.js")
    assert all(map(is_test, tests))
    assert not any(map(is_test, ("tests/helpers.py", "src/contest.py", "latest.js", "tests/__init__.py")))


@pytest.mark.parametrize(("profile", "told"), [("small", 2), ("standard", 0)])
def test_a_small_model_is_told_to_answer_after_a_change_that_nothing_tests(
    tmp_path: Path, profile: str, told: int
) -> None:
    """Without a word it makes the same change again."""
    stage = changed(tmp_path, RIGHT, WRONG, files={"calc.py": WRONG}, profile=profile)
    assert len(notes(stage, TESTS_SOURCE)) == told
    assert not stage.events(SuiteStarted)

"""The tasks of `bench/work`: each is unsolved as it stands, and solved by its reference solution."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.work.baseline import run_test
from bench.work.tasks import TASKS, Task, check, load_tasks, make_workspace

ALL = load_tasks()
LANGUAGES = {"python": 14, "javascript": 6, "shell": 5, "data": 5}


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_the_start_fails_the_check_and_the_solution_passes(task: Task, tmp_path: Path) -> None:
    if task.problem:
        pytest.skip(task.problem)
    start = make_workspace(task, tmp_path / "start")
    assert not check(task, start, tmp_path, is_trusted=True).is_solved
    solved = make_workspace(task, tmp_path / "solved", is_solved=True)
    checked = check(task, solved, tmp_path, is_trusted=True)
    assert checked.is_solved, checked.detail
    if task.test:
        assert run_test(start, task.test)
        assert run_test(solved, task.test) == ""


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_the_agents_folder_holds_only_the_starting_files(task: Task, tmp_path: Path) -> None:
    workspace = make_workspace(task, tmp_path / "workspace")
    given = {path.relative_to(workspace) for path in workspace.rglob("*")}
    files = task.folder / "files"
    assert given == {path.relative_to(files) for path in files.rglob("*")}
    hidden = task.check.read_bytes()
    assert all(path.read_bytes() != hidden for path in workspace.rglob("*") if path.is_file())


def test_a_check_leaves_the_workspace_as_it_was(tmp_path: Path) -> None:
    (task,) = load_tasks(patterns=["22-sh-stop"])
    workspace = make_workspace(task, tmp_path / "workspace", is_solved=True)
    before = {path: path.read_bytes() for path in workspace.rglob("*") if path.is_file()}
    assert check(task, workspace, tmp_path, is_trusted=True).is_solved
    assert {path: path.read_bytes() for path in workspace.rglob("*") if path.is_file()} == before


def test_there_are_thirty_tasks_of_every_kind_and_language() -> None:
    assert {language: sum(task.language == language for task in ALL) for language in LANGUAGES} == LANGUAGES
    assert {task.kind for task in ALL} == {"repair", "implement", "refactor", "investigate"}
    assert {task.level for task in ALL} == {1, 2, 3}
    assert all(len(list((task.folder / "files").rglob("*"))) <= 6 for task in ALL)


def test_javascript_is_skipped_with_a_reason_where_node_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert shutil.which("node") is None
    assert all(bool(task.problem) == (task.language == "javascript") for task in ALL)
    assert TASKS.is_dir()

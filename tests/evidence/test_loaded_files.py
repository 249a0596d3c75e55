"""Which files decide what a check says, and which of them are the agent's."""

from __future__ import annotations

from typing import Literal

import pytest

from mainspring.events import ArtifactChange, ArtifactsChanged
from mainspring.evidence.artifacts import Artifacts
from mainspring.evidence.loaded_files import deciding_files


class Work:
    """A folder before the goal, and what the agent did to it."""

    def __init__(self, **before: str) -> None:
        self.texts = {
            name.replace("__", "/").replace("_py", ".py").replace("_sh", ".sh"): text
            for name, text in before.items()
        }
        self.artifacts = Artifacts()
        self._apply(0, "new", *self.texts)

    def _apply(self, iteration: int, kind: Literal["new", "modified", "deleted"], *paths: str) -> None:
        changes = tuple(
            ArtifactChange(path=path, kind=kind, sha256=f"{hash(self.texts.get(path)):064x}"[-64:], size=1)
            for path in paths
        )
        self.artifacts.apply(ArtifactsChanged(iteration=iteration, changes=changes))

    def add(self, *paths: str) -> None:
        """Files from before the goal whose names are no identifiers."""
        self.texts |= dict.fromkeys(paths, "")
        self._apply(0, "new", *paths)

    def agent(self, **texts: str) -> Work:
        for path, text in texts.items():
            self.write(path.replace("__", "/").replace("_py", ".py").replace("_sh", ".sh"), text)
        return self

    def write(self, path: str, text: str = "changed") -> Work:
        self.texts[path] = text
        self._apply(1, "modified" if path in self.artifacts.first else "new", path)
        return self

    def delete(self, path: str) -> Work:
        self.texts.pop(path)
        self._apply(1, "deleted", path)
        return self

    def found(self, line: str, *frozen: str, work: tuple[str, ...] = ()) -> tuple[str, ...]:
        return deciding_files(
            line, self.artifacts, self.texts.get, frozen=frozen, work=work, root="/w"
        ).written


def test_a_script_that_the_agent_wrote_or_changed_is_named() -> None:
    work = Work(check_py="import sys").write("check.py").write("new.py")
    for line in ("python3 check.py", "cd . && python3 -u ./check.py --fast", "bash -c 'python3 check.py'"):
        assert work.found(line) == ("check.py",), line
    assert work.found("timeout 5 env A=1 python3 new.py") == ("new.py",)
    assert work.found("python3 -m check") == ("check.py",)


@pytest.mark.parametrize(
    "line",
    [
        "python3 /w/check.py",
        "cd lib && python3 /w/check.py",
        "python3 $PWD/check.py",
        'python3 "${PWD}"/check.py',
        "python3 $(pwd)/check.py",
        "python3 `pwd`/check.py",
        'python3 "$CHECK"',
        "bash $HERE/check.sh",
        "diff result /w/check.py",
    ],
)
def test_a_file_is_known_by_its_full_path_and_one_that_is_not_known_may_be_any(line: str) -> None:
    work = Work(check_py="import sys").write("check.py")
    assert work.found(line) == ("check.py",)
    assert work.found("python3 /usr/lib/check.py; bash /opt/check.sh") == ()


def test_what_a_script_imports_decides_with_it() -> None:
    work = Work(
        check_py="from lib import helper\nimport far",
        lib____init___py="",
        lib__helper_py="from . import deep",
        lib__deep_py="",
        far_py="",
    )
    assert work.found("python3 check.py") == ()
    work.write("lib/deep.py").write("unrelated.py")
    assert work.found("python3 check.py") == ("lib/deep.py",)
    work.write("json.py")
    work.texts["check.py"] = "import json"
    assert work.found("python3 check.py") == ("json.py",), "a module that hides another"


def test_what_only_looks_at_files_loads_nothing() -> None:
    work = Work(expected="1", notes="x").write("result").write("count").write("solver.py")
    assert work.found("test -f result && grep -q done result | wc -l") == ()
    assert (
        work.found('echo looking; test "$(cat count)" -ge 3 || { echo "few: $(cat count)"; exit 4; }') == ()
    )
    assert work.found("diff result expected") == ()
    assert work.write("expected").found("diff result expected") == ("expected",)


def test_a_test_runner_is_decided_by_tests_and_settings() -> None:
    before = {"tests__test_a_py": "import pytest\nimport app", "app_py": "", "Makefile": ""}
    assert Work(**before).write("notes.md").found("pytest -q") == ()
    for path in ("conftest.py", "tests/test_a.py", "tests/fixtures/data.json", "pyproject.toml", "app.py"):
        assert Work(**before).write(path).found("python3 -m pytest -q") == (path,)
    assert Work(**before).delete("tests/test_a.py").found("pytest") == ("tests/test_a.py",)


def test_frozen_tests_are_declared_to_decide_and_the_rest_is_the_work() -> None:
    before = {"tests__test_a_py": "import app", "app_py": "", "check_py": "import app"}
    work = Work(**before).write("app.py")
    assert work.found("pytest -q", "tests/test_a.py") == ()
    assert work.found("make test", "tests/test_a.py") == ()
    assert work.found("python3 check.py", "check.py") == ()
    assert work.found("python3 check.py", "other.py") == ("app.py",)
    assert work.write("conftest.py").found("pytest -q", "tests/test_a.py") == ("conftest.py",)


def test_of_an_unknown_program_every_changed_file_may_decide() -> None:
    work = Work(check_sh="make -s all", run_py="import subprocess").write("a.c").write("out.bin")
    assert work.found("make test") == ("a.c", "out.bin")
    assert work.found("bash check.sh") == ("a.c", "out.bin")
    assert work.found("python3 run.py") == ("a.c", "out.bin")
    assert work.found("make test", work=("out.bin",)) == ("a.c",)
    assert work.found("echo 'unclosed") == ("a.c", "out.bin")


def test_a_shell_script_is_read_for_what_it_runs() -> None:
    work = Work(check_sh="set -e\n# a comment\ntest -f result\npython3 inner.py\n", inner_py="")
    assert work.write("result").found("./check.sh") == ()
    assert work.write("inner.py").found("sh check.sh") == ("inner.py",)


def test_a_file_that_was_put_back_is_what_it_was() -> None:
    work = Work(check_py="import sys")
    work.write("check.py", "pass").write("check.py", "import sys")
    assert work.found("python3 check.py") == ()


@pytest.mark.parametrize(
    "line", ["", "\0", "'" * 7, "$(" * 50, "`" * 9, "python3 -c", "python3 -m", "bash -c", ";;;"]
)
def test_no_odd_line_hides_the_script_beside_it(line: str) -> None:
    work = Work(a_py="1").write("b.py")
    for whole in (f"{line}\npython3 b.py", f"python3 b.py\n{line}", f"python3 b.py; {line}"):
        assert work.found(whole) == ("b.py",), whole
    assert set(work.found(line)) <= {"b.py"}


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("PATH=.:$PATH grep -q 42 answer", "grep"),
        ("export PATH=bin; grep -q 42 answer", "bin/grep"),
        ("BASH_ENV=first.sh bash /usr/bin/check", "first.sh"),
        ("PYTHONPATH=vendor:more python3 check.py", "more/lib.py"),
        ("python3 -m package", "package/__main__.py"),
        ("python3 check.py", "lib.pyc"),
        ("python3 check.py", "copy.py"),
        ("python3 -m pytest -q", "copy/__init__.py"),
        ("diff -r out golden_files", "golden_files/a"),
        ("cat golden_*/* | grep -q 2", "golden_files/a"),
        ("python3 reads.py", "golden_files/a"),
        ("$(cat answer)", "answer"),
        ("trap '. ./answer' EXIT; false", "answer"),
    ],
)
def test_what_a_line_loads_by_other_ways_than_its_name_decides_it(line: str, path: str) -> None:
    work = Work(
        check_py="import lib\nimport dataclasses",
        reads_py="import os\nopen(os.path.join('golden_files', 'a'))",
    )
    work.add("package/__main__.py", "package/__init__.py", "golden_files/a")
    assert work.found(line) == ()
    assert work.write(path).found(line) == (path,)


def test_what_frozen_data_is_compared_with_is_the_work() -> None:
    work = Work(out="1", expected="2", out2__a="1", expected2__a="2").write("out", "2").write("out2/a", "2")
    assert work.found("diff out expected") == ("out",)
    assert work.found("diff out expected", "expected") == ()
    assert work.found("diff -r out2 expected2", "expected2/a") == ()

"""A check whose files the agent changed runs once more in a copy, with those files as they were."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]

LINE = "python3 test_it.py"


def checked(machine: Machine, work: str, line: str = LINE, **before: str) -> dict[str, Any]:
    """The check of a goal whose agent did `work`."""
    for name, text in before.items():
        (machine.workspace / name.replace("_py", ".py").replace("_sh", ".sh")).write_text(text)
    ran = goal(machine, engine(machine, t1=f"{work}; echo {DONE!r}"), "--check", line)
    assert ran.returncode == 0, ran.stderr
    (found,) = events(machine, "CheckEnded")
    assert events(machine, "GoalEnded")[0]["grade"] == found["grade"]
    return found


READS = "assert open('result').read().strip() == '42'\n"


def test_a_changed_test_that_passes_as_it_was_verifies(machine: Machine) -> None:
    work = "echo 42 > result; echo '# looked at' >> test_it.py"
    found = checked(machine, work, test_it_py=READS)
    assert found["grade"] == "verified"
    assert "written" not in found
    assert "test_it.py as when the goal was set" in found["detail"]
    assert "# looked at" in (machine.workspace / "test_it.py").read_text(), "the workspace is left alone"


def test_a_test_that_passes_only_as_the_agent_changed_it_is_told(machine: Machine) -> None:
    found = checked(machine, "echo 41 > result; echo pass > test_it.py", test_it_py=READS)
    assert (found["grade"], found["written"]) == ("checked", ["test_it.py"])
    assert "passes only with the agent's changed test_it.py" in found["doubts"][0]
    assert "AssertionError" in found["doubts"][0], "what the original says"
    report = machine.run("goal", "report").stdout
    assert "passes only with the agent's changed test_it.py" in report
    assert "passes only with the agent's changed test_it.py" in events(machine, "GoalEnded")[0]["reason"]


def test_what_the_original_test_imports_decides_and_not_what_the_changed_one_does(machine: Machine) -> None:
    before = {
        "test_it_py": "import close\nassert close.near(41)\n",
        "close_py": "def near(x): return x == 42\n",
    }
    work = "echo pass > test_it.py; echo 'def near(x): return True' > close.py"
    found = checked(machine, work, **before)
    assert (found["grade"], found["written"]) == ("checked", ["close.py"])
    assert "passes with test_it.py as when the goal was set" in found["detail"]
    assert "AssertionError with close.py as when the goal was set" in found["detail"]


def test_an_import_that_does_not_matter_is_put_back_as_well(machine: Machine) -> None:
    before = {"test_it_py": f"import lib\n{READS}", "lib_py": "A = 1\n"}
    found = checked(machine, "echo 42 > result; echo A = 2 > lib.py", **before)
    assert found["grade"] == "verified", found


def test_the_work_itself_may_be_what_is_imported(machine: Machine) -> None:
    before = {"test_it_py": "import it\nassert it.f() == 1\n", "it_py": "def f(): return 0\n"}
    found = checked(machine, "echo 'def f(): return 1' > it.py", **before)
    assert (found["grade"], found["written"]) == ("checked", ["it.py"])
    assert "doubts" not in found
    assert "AssertionError with it.py as when the goal was set" in found["detail"]


def test_added_tests_are_told_beside_those_that_were_there(machine: Machine) -> None:
    before = {"test_old_py": "import it\ndef test_it(): assert it.f() == 1\n", "it_py": "def f(): return 0\n"}
    work = "echo 'def f(): return 1' > it.py; echo 'def test_new(): pass' > test_new.py"
    found = checked(machine, work, "python3 -m pytest -q -p no:cacheprovider", **before)
    assert (found["grade"], found["written"]) == ("checked", ["it.py"])
    assert "passes with test_new.py as when the goal was set" in found["detail"]


def test_a_test_that_was_deleted_is_there_again_in_the_copy(machine: Machine) -> None:
    before = {"test_a_py": "def test_a(): pass\n", "test_b_py": "def test_b(): assert 0\n"}
    found = checked(machine, "rm test_b.py", "python3 -m pytest -q -p no:cacheprovider", **before)
    assert found["grade"] == "checked"
    assert "passes only with the agent's changed test_b.py" in found["doubts"][0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("python3 test_it.py && test -d .git", "it fails in any case"),
        ("python3 {workspace}/test_it.py", "full path"),
        ("python3 made.py", "made.py was not there then"),
    ],
)
def test_where_no_copy_can_tell_the_reason_is_told(machine: Machine, line: str, reason: str) -> None:
    (machine.workspace / ".git").mkdir()
    work = "echo 42 > result; echo pass > made.py; echo '#' >> test_it.py; sed -i s/42/41/ test_it.py; echo 41 > result"
    found = checked(machine, work, line.format(workspace=machine.workspace), test_it_py=READS)
    assert found["grade"] == "checked"
    assert reason in found["detail"], found
    assert "doubts" not in found


def test_a_file_that_holds_a_secret_is_not_kept_and_the_reason_is_told(machine: Machine) -> None:
    key = "sk-ant-api03-" + "a1B2" * 12
    found = checked(machine, "echo pass > test_it.py", test_it_py=f"key = '{key}'\n")
    assert found["grade"] == "checked"
    assert "what test_it.py held then was not kept" in found["detail"]


def test_what_python_cached_of_a_file_is_not_run_in_its_place(machine: Machine) -> None:
    before = {"test_it_py": "import lib\nassert lib.answer() == 42\n", "lib_py": "def answer(): return 41\n"}
    mode = "py_compile.PycInvalidationMode.UNCHECKED_HASH"
    work = (
        "cp lib.py was; echo 'def answer(): return 42' > lib.py; "
        f"""python3 -c "import py_compile; py_compile.compile('lib.py', invalidation_mode={mode})"; """
        f"mv was lib.py; echo {DONE!r}"
    )
    for name, text in before.items():
        (machine.workspace / name.replace("_py", ".py")).write_text(text)
    ran = goal(machine, engine(machine, t1=work), "--check", LINE, "--max-iterations", "1")
    assert (ran.returncode, events(machine, "CheckEnded")[0]["passed"]) == (1, False), ran.stderr

"""Tests that passed before a turn and fail after a change are told with the change, whoever made it; a turn is
not done with them unless it was told twice, and then going back is offered, never done."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.checks.settings import ChecksSettings
from mainspring.context.work import WorkSettings
from mainspring.events import (
    CHECKS_SOURCE,
    REGRESSIONS_SOURCE,
    TESTS_SOURCE,
    CallEnded,
    CallStarted,
    ChangesChecked,
    NoteAdded,
    RollbackOffered,
    SuiteEnded,
    SuiteStarted,
    TurnEnded,
)
from mainspring.settings import Config, load_config
from mainspring.testing import Stage, tool_call
from tests.stage import staged

CALC = "def add(first, second):\n    return first + second\n"
WRONG = CALC.replace("+", "-")
TEST = """\
import unittest
from calc import add

class Adding(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 2), 4)

    def test_nothing(self):
        self.assertEqual(add(0, 0), 0)
"""
SHOP = "import unittest\nimport shop\n\nclass Shop(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(shop.total([1, 2]), 3)\n"
PROJECT = {
    "calc.py": CALC,
    "shop.py": "import calc\n\ndef total(prices):\n    return calc.add(*prices)\n",
    "test_calc.py": TEST,
    "test_shop.py": SHOP,
}
ADD = "test_calc.Adding.test_add"
SUM = "test_shop.Shop.test_sum"


def guarded(folder: Path, *, after_change: Any = None, **checks: Any) -> Config:
    config = load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": "/usr/local/bin:/usr/bin:/bin"})
    checked = ChecksSettings(**{"after_change": "off", "suite_limit_s": 300.0, "coverage": "off", **checks})
    work = WorkSettings(priming="off", after_change=after_change, test_timeout_s=300.0)
    settings = msgspec.structs.replace(config.settings, work=work, checks=checked)
    return msgspec.structs.replace(config, settings=settings)


def write(path: str, content: str) -> Any:
    return shell(f"cat > {path} <<'END'\n{content}END")


def shell(command: str) -> Any:
    return tool_call("shell", command=command)


def ran(stage: Stage) -> list[tuple[Any, str]]:
    return [(ended.cause, ended.outcome) for ended in stage.events(SuiteEnded)]


def notes(stage: Stage, source: str) -> list[str]:
    return [note.text for note in stage.events(NoteAdded) if note.source == source]


def test_what_a_change_breaks_is_told_with_its_output_and_the_change(tmp_path: Path) -> None:
    replies = (write("calc.py", WRONG), write("calc.py", CALC), "Fertig.")
    stage = staged(tmp_path, PROJECT, *replies)
    stage.run("Schreibe add schöner, ohne etwas zu ändern", config=guarded(tmp_path), mode="auto")
    assert ran(stage) == [
        ("baseline", "passed"),
        ("change", "failed"),
        ("again", "failed"),
        ("change", "passed"),
        ("done", "passed"),
    ]
    (told,) = notes(stage, TESTS_SOURCE)
    assert ADD in told
    assert "AssertionError: 0 != 4" in told
    assert "test_nothing" not in told
    assert "step 1: calc.py" in told
    assert stage.sent(1)[-1]["text"].endswith(told)
    assert stage.events(TurnEnded)[-1].ending == "done"
    assert not stage.events(RollbackOffered)


def test_a_turn_that_changes_nothing_runs_nothing(tmp_path: Path) -> None:
    stage = staged(tmp_path, PROJECT, tool_call("read", path="calc.py"), "Nichts zu tun.")
    stage.run("Was tut add?", config=guarded(tmp_path), mode="auto")
    assert not stage.events(SuiteStarted)


def test_nothing_is_run_that_the_agent_could_not_run_itself(tmp_path: Path) -> None:
    replies = (tool_call("read", path="calc.py"), tool_call("write", path="calc.py", content=WRONG), "Done.")
    stage = staged(tmp_path, PROJECT, *replies)
    stage.run("Go", config=guarded(tmp_path), mode="auto", tools=["read", "write"])
    assert (stage.workspace / "calc.py").read_text(encoding="utf-8") == WRONG
    assert not stage.events(SuiteStarted)


def test_off_is_off(tmp_path: Path) -> None:
    stage = staged(tmp_path, PROJECT, write("calc.py", WRONG), "Done.")
    stage.run("Go", config=guarded(tmp_path, regressions="off"), mode="auto")
    assert not stage.events(SuiteStarted)


def test_all_tests_run_before_a_turn_is_done_and_going_back_is_offered_after_two_rounds(
    tmp_path: Path,
) -> None:
    """The change breaks a test of another file, which nothing names."""
    replies = (write("calc.py", CALC.replace("add(", "plus(")), "Done.", "Really.", "It is right.")
    files = {**PROJECT, "test_calc.py": "import unittest\nimport calc\n"}
    stage = staged(tmp_path, files, *replies)
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    assert ran(stage) == [
        ("baseline", "passed"),
        ("change", "passed"),
        ("done", "failed"),
        ("again", "failed"),
    ]
    told = notes(stage, REGRESSIONS_SOURCE)
    assert [SUM in text for text in told] == [True, True]
    assert "step 1: calc.py" in told[0]
    (offered,) = stage.events(RollbackOffered)
    assert (offered.tests, offered.files) == ((SUM,), ("calc.py",))
    assert stage.events(TurnEnded)[-1].ending == "done"
    assert "plus(" in (stage.workspace / "calc.py").read_text(encoding="utf-8")


def test_what_failed_before_is_not_told(tmp_path: Path) -> None:
    failing = TEST.replace("4)", "5)")
    replies = (write("calc.py", CALC + "\n"), "Done.")
    stage = staged(tmp_path, {**PROJECT, "test_calc.py": failing}, *replies)
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    assert ran(stage) == [("baseline", "failed"), ("change", "failed"), ("done", "failed")]
    assert not any(ended.regressions for ended in stage.events(SuiteEnded))
    assert not stage.events(NoteAdded)


def test_a_broken_import_in_another_file_breaks_the_tests_of_that_file(tmp_path: Path) -> None:
    replies = (write("shop.py", "import calculator\n"), write("shop.py", PROJECT["shop.py"]), "Done.")
    stage = staged(tmp_path, PROJECT, *replies)
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    (told,) = notes(stage, TESTS_SOURCE)
    assert SUM in told
    assert "No module named 'calculator'" in told


def test_a_flaky_test_is_named_as_such(tmp_path: Path) -> None:
    """It fails every second time, whatever the files hold."""
    flaky = (
        "import unittest\nimport os, calc\n\nclass Now(unittest.TestCase):\n    def test_now(self):\n"
        "        count = int(open('count').read()) if os.path.exists('count') else 0\n"
        "        if os.path.exists('began'):\n"
        "            open('count', 'w').write(str(count + 1))\n"
        "            self.assertTrue(count % 2)\n"
    )
    files = {"calc.py": CALC, "test_calc.py": flaky, ".gitignore": "count\n"}
    stage = staged(tmp_path, files, shell("echo >> calc.py; touch began"), "Done.")
    stage.run("Go", config=guarded(tmp_path, after_change="off"), mode="auto")
    (again,) = [ended for ended in stage.events(SuiteEnded) if ended.cause == "again"]
    assert (again.flaky, again.regressions) == (("test_calc.Now.test_now",), ())
    assert not notes(stage, REGRESSIONS_SOURCE)


def test_the_same_content_is_not_tested_twice(tmp_path: Path) -> None:
    replies = (write("calc.py", CALC + "\n"), "Done.", write("calc.py", CALC), "Done.")
    stage = staged(tmp_path, PROJECT, *replies)
    config = guarded(tmp_path, after_change="off")
    stage.run("Go", config=config, mode="auto")
    stage.run("Go on", config=config, mode="auto")
    assert [started.cause for started in stage.events(SuiteStarted)] == ["baseline", "done"]
    assert [ended.is_known for ended in stage.events(SuiteEnded)] == [False, False, True, True]


def test_tests_that_are_too_slow_are_told_once_and_left_alone(tmp_path: Path) -> None:
    slow = {"calc.py": CALC, "test_calc.py": "import unittest, calc, time\ntime.sleep(600)\n"}
    stage = staged(tmp_path, slow, write("calc.py", WRONG), write("calc.py", CALC), "Done.")
    stage.run("Go", config=guarded(tmp_path, suite_limit_s=0.5), mode="auto")
    assert ran(stage) == [("baseline", "slow")]
    (told,) = notes(stage, CHECKS_SOURCE)
    assert "0.5 s" in told


def test_a_runner_that_nobody_knows_counts_as_a_whole(tmp_path: Path) -> None:
    files = {"calc.py": CALC, "Makefile": "test:\n\tgrep -q + calc.py\n"}
    stage = staged(tmp_path, files, write("calc.py", WRONG), "Done.", write("calc.py", CALC), "Done.")
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    broken = [ended.regressions for ended in stage.events(SuiteEnded)]
    assert broken == [(), ("make test",), ("make test",), ()]
    assert len(notes(stage, REGRESSIONS_SOURCE)) == 1


def test_a_call_starts_after_the_tests_have_run(tmp_path: Path) -> None:
    """A process that dies while they run has begun nothing."""
    stage = staged(tmp_path, PROJECT, write("calc.py", CALC + "\n"), "Done.")
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    kinds = [type(item.event) for item in stage.journal()]
    assert kinds.index(SuiteStarted) < kinds.index(SuiteEnded) < kinds.index(CallStarted)
    assert stage.events(CallEnded)[0].outcome == "ok"


WAITING = """\
import unittest
import os, time

class Waiting(unittest.TestCase):
    def test_wait(self):
        print("running", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.02)
"""
KILLED = """\
import sys
from pathlib import Path
from tests.checks import test_regressions
test_regressions.interrupted(Path(sys.argv[1]))
"""


def kept(folder: Path) -> Stage:
    files = {"test_wait.py": WAITING}
    stage = staged(folder, files, shell("echo done >> log; touch again"), "Done.")
    stage.sessions = SqliteSessions(folder / "sessions")
    return stage


def interrupted(folder: Path) -> None:
    """Runs in a process of its own, which is killed while the tests run; says when they do."""
    stage = kept(folder)

    async def watched() -> None:
        async with stage.open(config=guarded(folder), mode="auto") as session:
            print(session.id, flush=True)
            async for event in session.run("Go"):
                if isinstance(event, SuiteStarted):
                    print("testing", flush=True)

    asyncio.run(watched())


def test_a_process_that_is_killed_before_the_first_change_repeats_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            lines = [line.strip() for _, line in zip(range(2), process.stdout or (), strict=False)]
            assert lines[1] == "testing"
        finally:
            process.send_signal(signal.SIGKILL)
    stage = kept(tmp_path)
    stage.session = lines[0]
    (stage.workspace / "go").touch()
    stage.run(config=guarded(tmp_path), mode="auto")
    causes = [started.cause for started in stage.events(SuiteStarted)]
    assert causes[:2] == ["baseline", "baseline"]
    assert len(stage.events(CallStarted)) == 1
    assert [ended.outcome for ended in stage.events(CallEnded)] == ["ok"]
    assert (stage.workspace / "log").read_text(encoding="utf-8") == "done\n"
    assert ran(stage)[0] == ("baseline", "passed")


def test_a_test_that_is_made_weaker_is_told_until_it_is_put_right(tmp_path: Path) -> None:
    weak = TEST.replace("self.assertEqual(add(2, 2), 4)", "self.assertTrue(True)")
    replies = (write("test_calc.py", weak), write("test_calc.py", TEST), "Fertig.")
    stage = staged(tmp_path, PROJECT, *replies)
    stage.run("Mach test_calc.py schneller", config=guarded(tmp_path), mode="auto")
    first, second = stage.events(ChangesChecked)
    (found,) = first.files[0].findings
    assert (first.files[0].path, found.rule, found.by) == ("test_calc.py", "emptied", "tests")
    assert (second.files[0].path, second.files[0].findings) == ("test_calc.py", ())
    (told,) = notes(stage, CHECKS_SOURCE)
    assert "Adding.test_add" in told


def test_what_stands_against_a_test_goes_with_it_when_it_is_renamed(tmp_path: Path) -> None:
    weak = TEST.replace("self.assertEqual(add(2, 2), 4)", "self.assertTrue(True)")
    steps = (write("test_calc.py", weak), shell("mv test_calc.py test_sums.py"), *["Done."] * 3)
    stage = staged(tmp_path, PROJECT, *steps)
    stage.run("Go", config=guarded(tmp_path, after_change="off"), mode="auto")
    found = {file.path: len(file.findings) for event in stage.events(ChangesChecked) for file in event.files}
    assert found == {"test_calc.py": 0, "test_sums.py": 1}


def test_tests_that_are_deleted_are_told_and_seen_to_be_missing(tmp_path: Path) -> None:
    stage = staged(tmp_path, PROJECT, shell("rm test_shop.py"), "Done.")
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    (checked,) = stage.events(ChangesChecked)
    assert [each.rule for each in checked.files[0].findings] == ["deleted"]
    assert stage.events(SuiteEnded)[-1].missing == (SUM,)


def test_tests_that_no_longer_run_are_told_where_no_changed_test_says_why(tmp_path: Path) -> None:
    left_out = f"{SHOP}\ndef load_tests(loader, tests, pattern):\n    return unittest.TestSuite()\n"
    stage = staged(tmp_path, PROJECT, write("test_shop.py", left_out), "Done.", "Done.", "Done.")
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    (told,) = notes(stage, CHECKS_SOURCE)
    assert "1 test that passed before this turn no longer run" in told
    assert SUM in told
    (checked,) = stage.events(ChangesChecked)
    assert SUM in checked.not_checked[0]


def test_a_command_that_runs_no_tests_any_more_is_told(tmp_path: Path) -> None:
    files = {**PROJECT, "test.sh": "python3 -m unittest -v\n", "Makefile": "test:\n\t@bash test.sh\n"}
    stage = staged(tmp_path, files, write("test.sh", "echo fine\n"), "Done.", "Done.", "Done.")
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    assert {ADD, SUM} <= {*stage.events(SuiteEnded)[-1].missing}
    assert any(
        "3 tests that passed before this turn no longer run" in text for text in notes(stage, CHECKS_SOURCE)
    )


def test_a_new_command_for_tests_does_not_take_the_place_of_the_one_of_before(tmp_path: Path) -> None:
    step = shell(f"printf 'test:\\n\\ttrue\\n' > Makefile; cat > calc.py <<'END'\n{WRONG}END")
    stage = staged(tmp_path, PROJECT, step, "Done.", "Done.", "Done.")
    stage.run("Go", config=guarded(tmp_path, after_change="off"), mode="auto")
    assert ADD in stage.events(SuiteEnded)[-1].regressions
    assert len(notes(stage, REGRESSIONS_SOURCE)) == 2


def test_tests_that_cannot_run_any_more_are_told(tmp_path: Path) -> None:
    files = {**PROJECT, "test.sh": "python3 -m unittest -v\n"}
    stage = staged(tmp_path, files, write("test.sh", "exit 127\n"), *["Done."] * 4)
    stage.run("Go", config=guarded(tmp_path, after_change="off"), mode="auto")
    assert ran(stage)[-1] == ("done", "unusable")
    assert any(
        "The tests ran before this turn, and no longer do" in text for text in notes(stage, CHECKS_SOURCE)
    )


def test_a_test_that_moved_is_not_missed(tmp_path: Path) -> None:
    stage = staged(tmp_path, PROJECT, shell("mv test_shop.py test_store.py"), "Done.", "Done.")
    stage.run("Go", config=guarded(tmp_path), mode="auto")
    assert stage.events(SuiteEnded)[-1].missing == (SUM,)
    assert not notes(stage, CHECKS_SOURCE)

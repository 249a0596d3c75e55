"""A command that fails is made to pass: real processes, real commands in the sandbox, a model that plays a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests import ROOT
from tests.cli.conftest import Machine

COMMAND = "bash check.sh"
FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
WRONG = "def total(prices):\n    return sum(prices[:-1])\n\n\ndef tax(amount):\n    return amount // 5\n"
RIGHT = WRONG.replace("prices[:-1]", "prices")
BREAKS = RIGHT.replace("// 5", "// 3")
TEST_TOTAL = """\
import unittest
from calc import total


class TotalTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2, 3]), 6)
"""
TEST_TAX = """\
import unittest
from calc import tax


class TaxTest(unittest.TestCase):
    def test_tax(self):
        self.assertEqual(tax(10), 2)
"""
UNITTEST = "python3 -m unittest test_total"


def git(machine: Machine, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "p@x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **who}
    ran = subprocess.run(
        ["git", *arguments],
        cwd=machine.workspace,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.strip()


@pytest.fixture
def shop(machine: Machine) -> Machine:
    """A project with a bug, of which one test of two fails."""
    for name, text in {
        "calc.py": WRONG,
        ".gitignore": "__pycache__/\n",
        "test_total.py": TEST_TOTAL,
        "test_tax.py": TEST_TAX,
        "check.sh": "echo looked >> ../looks\ngrep -q 'sum(prices)' calc.py || { echo calc.py:2: wrong; exit 3; }\n",
    }.items():
        (machine.workspace / name).write_text(text)
    git(machine, "init", "-q", "-b", "main")
    git(machine, "add", "-A")
    git(machine, "commit", "-qm", "Leave out the last price")
    return machine


def shell(command: str) -> dict[str, Any]:
    return {"name": "shell", "arguments": {"command": command}}


def writes(text: str, *said: str) -> list[dict[str, Any]]:
    """Replies that suspect something, write calc.py and say that all is well."""
    call = shell(f"cat > calc.py <<'END'\n{text}END")
    return [{"text": "\n".join(said), "calls": [call]}, *({"text": "Fixed."} for _ in range(4))]


def seeded(number: int, replies: list[dict[str, Any]]) -> dict[str, Any]:
    return {"contains": f'"seed":{number},', "replies": replies}


def fix(machine: Machine, *arguments: str, **extra: str) -> tuple[int, dict[str, Any]]:
    ran = machine.run("fix", *arguments, "--json", **extra)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def source(machine: Machine) -> str:
    return (machine.workspace / "calc.py").read_text()


def test_a_fix_is_verified_by_our_own_runs_and_the_next_attempt_knows_what_was_refuted(shop: Machine) -> None:
    first = writes(WRONG + "\n", "HYPOTHESIS 1: the tax is wrong", "REFUTED 1: the test has no tax",
                   "HYPOTHESIS 2: a line is missing", "CONFIRMED 2: I looked")  # fmt: skip
    second = writes(RIGHT, "HYPOTHESIS 1: the last price is left out", "CONFIRMED 1: prices[:-1]")
    model = shop.serve(*first, cases=[seeded(2, second)])
    code, found = fix(shop, UNITTEST, "--model", model, *FREE)
    assert (code, found["outcome"], found["kept"]) == (0, "fixed", 2)
    assert source(shop) == RIGHT
    assert (found["runs"], found["failed_runs"]) == (2, 2)
    assert found["tests"] == ["test_total.TotalTest.test_total"]
    assert found["places"][0]["path"] == "test_total.py"
    assert any("Leave out the last price: " in line for line in found["recent"])
    judged = [[(each["verdict"], each["text"]) for each in a["hypotheses"]] for a in found["attempts"]]
    assert judged == [
        [("refuted", "the tax is wrong"), ("open", "a line is missing")],
        [("confirmed", "the last price is left out")],
    ]
    assert [check["check"] for check in found["attempts"][1]["checks"]] == [
        UNITTEST, "tests are as strong as they were", "python3 -m unittest",
    ]  # fmt: skip
    told = shop.seen[-1].body.decode()
    assert "refuted: the tax is wrong (the test has no tax)" in told
    events = shop.events(found["session"])
    for_task = [e["body"] for e in events if e["kind"] == "SuiteStarted" and e["body"]["cause"] == "task"]
    assert len(for_task) == 1, "tests that the task names run once, not in each attempt"
    kinds = [event["kind"] for event in events]
    assert kinds.index("FaultReproduced") < kinds.index("AttemptStarted") < kinds.index("HypothesisJudged")
    text = shop.run("fix", "--show", found["session"]).stdout
    assert "fixed: the command passes, by a run after the change" in text
    assert "✓ confirmed: the last price is left out (prices[:-1])" in text


def test_a_command_that_passes_is_nothing_to_fix_and_no_model_is_asked(shop: Machine) -> None:
    model = shop.serve({"text": "never"})
    code, found = fix(shop, "python3 -m unittest test_tax", "--model", model, *FREE)
    assert (code, found["outcome"], found["runs"]) == (6, "passes", 1)
    assert not shop.seen


def test_a_flaky_command_is_told_and_fixed_only_when_it_passes_often_enough(shop: Machine) -> None:
    # It fails every second time, as long as a file says so.
    (shop.workspace / "flaky").write_text("yes\n")
    flaky = "bash -c 'echo x >> n; test ! -e flaky || test $(( $(wc -l < n) % 2 )) = 0'"
    model = shop.serve({"calls": [shell("rm flaky")]}, {"text": "Done."})
    code, found = fix(shop, flaky, "--model", model, *FREE)
    assert (code, found["outcome"], found["runs"], found["failed_runs"]) == (7, "flaky", 2, 1)
    assert not shop.seen
    code, found = fix(shop, flaky, "--model", model, "--repeat", "4", "--no-suite", *FREE)
    assert (code, found["outcome"]) == (0, "fixed")
    assert "4 of 4 runs passed" in found["attempts"][0]["checks"][0]["detail"]
    assert found["not_checked"] == ["other tests: you wanted none run"]


@pytest.mark.parametrize(
    ("command", "detail"),
    [
        ("no-such-program-at-all", "a program of it is not there"),
        (f"{sys.executable} -m pytest nowhere.py", "pytest does not know what it was given"),
    ],
)
def test_a_command_that_cannot_run_is_not_taken_for_a_bug(shop: Machine, command: str, detail: str) -> None:
    code, found = fix(shop, command, "--model", shop.serve({"text": "never"}), *FREE)
    assert (code, found["outcome"]) == (1, "unusable")
    assert detail in found["detail"]
    assert not shop.seen


WEAKER = [
    {"calls": [shell("sed -i 's/, 6)/, 3)/' test_total.py")]},
    {"text": "The test was wrong."},
    {"text": "The test was wrong."},
]


def test_a_fix_that_makes_tests_weaker_is_refused_and_taken_back(shop: Machine) -> None:
    code, found = fix(shop, UNITTEST, "--model", shop.serve(*WEAKER), "--attempts", "1", *FREE)
    assert (code, found["outcome"]) == (1, "attempts")
    passed, weaker = found["attempts"][0]["checks"]
    assert passed["passed"]
    assert "no longer asserts" in weaker["detail"] or "asserts" in weaker["detail"]
    assert (shop.workspace / "test_total.py").read_text() == TEST_TOTAL
    assert git(shop, "status", "--porcelain") == ""


def test_a_command_that_no_longer_runs_what_failed_is_no_fix(shop: Machine) -> None:
    makefile = shop.workspace / "Makefile"
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    makefile.write_text(f"check:\n\t{sys.executable} -m pytest -q -p no:cacheprovider test_sum.py\n")
    (shop.workspace / "test_sum.py").write_text(
        "from calc import total\n\n\ndef test_sum():\n    assert total([1, 2]) == 3\n"
    )
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "check")
    cheat = [
        {"text": "", "calls": [shell("printf 'check:\\n\\ttrue\\n' > Makefile")]},
        *[{"text": "Fixed."}] * 4,
    ]
    code, found = fix(shop, "make check", "--model", shop.serve(*cheat), "--attempts", "1", *FREE, PATH=path)
    assert (code, found["outcome"]) == (1, "attempts")
    passed, weaker = found["attempts"][0]["checks"][:2]
    assert (passed["passed"], weaker["passed"]) == (True, False)
    assert "names no test any more, and by itself still fails: test_sum.py::test_sum" in weaker["detail"]
    assert "pytest" in makefile.read_text()


def test_weaker_tests_count_when_a_person_allows_them_and_are_told(shop: Machine) -> None:
    code, found = fix(shop, UNITTEST, "--model", shop.serve(*WEAKER), "--allow-weaker-tests", *FREE)
    assert (code, found["outcome"]) == (0, "fixed")
    assert "as you allowed" in found["attempts"][0]["checks"][1]["detail"]


def test_a_fix_that_breaks_another_test_is_refused(shop: Machine) -> None:
    # The model goes on to say that it is done however often it is told.
    model = shop.serve(*writes(BREAKS), cases=[seeded(2, writes(RIGHT))])
    code, found = fix(shop, UNITTEST, "--model", model, *FREE)
    assert (code, found["outcome"], found["kept"]) == (0, "fixed", 2)
    suite = found["attempts"][0]["checks"][-1]
    assert not suite["passed"]
    assert "test_tax.TaxTest.test_tax" in suite["detail"]
    assert source(shop) == RIGHT


def test_a_stronger_tier_takes_over_after_two_failed_attempts(shop: Machine) -> None:
    weak, strong = shop.serve({"text": "It is fine."}), shop.serve(*writes(RIGHT))
    shop.home.mkdir(mode=0o700)
    (shop.home / "config.toml").write_text(f'[tiers]\nfast = "{weak}"\nreasoner = "{strong}"\n')
    code, found = fix(shop, COMMAND, "--model", "fast", "--sandbox", "none", *FREE)
    assert (code, found["outcome"], found["kept"]) == (0, "fixed", 3), found
    assert [each["model"] for each in found["attempts"]] == [weak, weak, strong]
    assert source(shop) == RIGHT


def test_money_that_is_used_up_is_the_reason(shop: Machine) -> None:
    endless = [{"calls": [shell(f"echo {n}")]} for n in range(30)]
    model = shop.serve(*endless)
    code, found = fix(shop, UNITTEST, "--model", model, "--max-tokens", "9000", *FREE)
    assert (code, found["outcome"]) == (4, "budget")
    assert source(shop) == WRONG


def test_a_worktree_leaves_the_files_alone_until_the_fix_lands(shop: Machine) -> None:
    cache = {"XDG_CACHE_HOME": str(shop.home.parent / "cache")}
    model = shop.serve(*writes(RIGHT))
    code, found = fix(shop, UNITTEST, "--model", model, "--worktree", *FREE, **cache)
    assert (code, found["outcome"], source(shop)) == (0, "fixed", WRONG)
    assert git(shop, "worktree", "list").count("\n") == 0
    assert git(shop, "show", f"{found['branch']}:calc.py") == RIGHT.strip()
    ran = shop.run("fix", "--resume", found["session"], "--land", **cache)
    assert ran.returncode == 0, ran.stderr
    assert "The branch has landed." in ran.stdout
    assert source(shop) == RIGHT
    assert git(shop, "for-each-ref", "refs/heads/mainspring/") == ""


def test_a_fix_of_sensitive_files_lands_only_when_a_person_agrees(shop: Machine) -> None:
    cache = {"XDG_CACHE_HOME": str(shop.home.parent / "cache")}
    (shop.workspace / "auth").mkdir()
    (shop.workspace / "auth" / "login.py").write_text("OPEN = False\n")
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "Add a door")
    replies = [{"calls": [shell("echo 'OPEN = True' > auth/login.py")]}, {"text": "Done."}]
    options = ("--model", shop.serve(*replies), "--worktree", "--land", "--no-suite", *FREE)
    code, found = fix(shop, "grep -q True auth/login.py", *options, **cache)
    assert (code, found["outcome"], found["is_landed"]) == (3, "fixed", False)
    assert "A person must agree" in found["not_landed"]
    code, found = fix(shop, "--resume", found["session"], "--land", "--yes", **cache)
    assert (code, found["is_landed"]) == (0, True)
    assert (shop.workspace / "auth" / "login.py").read_text() == "OPEN = True\n"


def test_a_question_that_nobody_answers_is_not_the_end(shop: Machine) -> None:
    model = shop.serve(*writes(RIGHT))
    code, found = fix(shop, UNITTEST, "--model", model, "--mode", "ask", *FREE[2:])
    assert (code, found["outcome"]) == (3, None)
    code, found = fix(shop, "--resume", found["session"], "--mode", "yolo")
    assert (code, found["outcome"]) in ((0, "fixed"), (3, None))


def test_a_fix_that_is_stopped_while_the_command_runs_says_so_and_goes_on(shop: Machine) -> None:
    slow = "bash -c 'test -e ../go || { touch ../began; sleep 300; }; bash check.sh'"
    model = shop.serve(*writes(RIGHT))
    process = shop.start("fix", slow, "--model", model, "--sandbox", "none", "--no-suite", *FREE)
    while not (shop.home.parent / "began").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "not over" in said
    (shop.home.parent / "go").touch()
    session = said.split("mainspring fix --resume ")[1].split()[0]
    assert shop.run("resume", session, "--sandbox", "none").returncode == 0
    assert source(shop) == RIGHT


COMMITS = 30
A_FEW = (1, 6, 14)


@pytest.mark.parametrize(
    "commits",
    [
        pytest.param(number, marks=() if number in A_FEW else pytest.mark.proof)
        for number in range(1, COMMITS)
    ],
)
def test_a_fix_that_is_killed_at_any_commit_runs_nothing_again_that_is_on_record(
    shop: Machine, commits: int
) -> None:
    effects = shop.home.parent / "effects"
    replies = [
        {"text": "HYPOTHESIS 1: it is left out", "calls": [shell(f"echo 1 >> '{effects}'")]},
        {"calls": [shell(f"echo 2 >> '{effects}'; sed -i 's/prices\\[:-1\\]/prices/' calc.py")]},
        *({"text": "CONFIRMED 1: so it is"} for _ in range(3)),
    ]
    options = ("--model", shop.serve(*replies), "--sandbox", "none", "--no-suite", *FREE)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.cli.killed_worker", str(commits), "fix", COMMAND, *options,
         "-C", str(shop.workspace)],
        cwd=ROOT, env=shop.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert ran.returncode == -signal.SIGKILL or commits > 20, ran.stderr
    session = shop.only_session()["id"]
    known = sum(event["kind"] == "CheckEnded" for event in shop.events(session))
    looks = shop.home.parent / "looks"
    before = len(looks.read_text().split()) if looks.exists() else 0
    code, found = fix(shop, "--resume", session, "--sandbox", "none")
    events = shop.events(session)
    count = [event["kind"] for event in events].count
    happened = effects.read_text().split() if effects.exists() else []
    attempts = len(found["attempts"])  # a call whose end is unknown may cost its attempt
    assert all(happened.count(each) <= attempts for each in happened), "a call was made twice"
    assert attempts <= 2
    assert count("FixStarted") == count("FixEnded") == count("FaultReproduced") == 1
    assert len(looks.read_text().split()) - before == count("CheckEnded") - known - count_of_tests(
        events, known
    )
    assert count("AttemptEnded") == count("AttemptStarted") == len(found["attempts"])
    assert (code, source(shop)) == ((0, RIGHT) if found["outcome"] == "fixed" else (1, WRONG))
    again, same = fix(shop, "--resume", session)
    assert (again, same) == (code, found)


def count_of_tests(events: list[dict[str, Any]], known: int) -> int:
    """How many of the newer checks looked at files and ran nothing."""
    checks = [event["body"] for event in events if event["kind"] == "CheckEnded"]
    return sum(check["kind"] == "file" for check in checks[known:])

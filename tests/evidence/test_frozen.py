"""What decides a goal is the user's: files that must stay as they were, over resumes and without an evaluation."""

from __future__ import annotations

import json

from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]


def frozen_check(machine: Machine) -> tuple[str, ...]:
    (machine.workspace / "check.sh").write_text("test -f result\n")
    return ("--check", "bash check.sh", "--frozen", "check.sh")


def test_the_same_options_again_keep_the_hashes_and_the_evaluation(machine: Machine) -> None:
    (machine.workspace / "eval.sh").write_text("echo METRIC q=1\n")
    options = ("--evaluate", "bash eval.sh", "--repeats", "2", "--frozen", "eval.sh")
    cases = engine(machine, t2=f"echo {DONE!r}", other="date +%N > f$turn")
    first = goal(machine, cases, *options, "--max-iterations", "1")
    assert first.returncode == 1, first.stderr
    more = (*options[:2], *options[4:], "--target", "q<=1", "--max-iterations", "3")
    again = machine.run("goal", "resume", machine.only_session()["id"], *more)
    assert again.returncode == 0, again.stderr
    recorded = [item["evaluation"] for item in events(machine, "GoalSet")]
    assert [item["hashes"] for item in recorded] == [recorded[0]["hashes"]] * len(recorded)
    assert recorded[-1]["repeats"] == 2
    assert all("flags" not in item for item in events(machine, "MeasurementsTaken"))


def test_a_resume_changes_only_what_it_names_and_freezes_only_what_is_new(machine: Machine) -> None:
    (machine.workspace / "eval.sh").write_text("echo METRIC q=1\n")
    (machine.workspace / "data").write_text("1\n")
    cases = engine(machine, t1="echo '# x' >> eval.sh", other=f"echo {DONE!r}")
    given = ("--evaluate", "bash eval.sh", "--frozen", "eval.sh", "--max-iterations", "1")
    assert goal(machine, cases, *given).returncode == 1
    name = machine.only_session()["id"]
    machine.run("goal", "resume", name, "--minimize", "q", "--frozen", "data", "--max-iterations", "2")
    first, *_, last = [item["evaluation"] for item in events(machine, "GoalSet")]
    assert (last["command"], last["metric"], last["better"]) == ("bash eval.sh", "q", "lower")
    assert [item["path"] for item in last["hashes"]] == ["data", "eval.sh"]
    assert first["hashes"][0] in last["hashes"]
    assert events(machine, "IterationEnded")[-1]["outcome"] == "refused"


def test_a_check_that_the_agent_rewrites_does_not_pass_when_it_is_frozen(machine: Machine) -> None:
    options = frozen_check(machine)
    cases = engine(machine, other=f"echo exit 0 > check.sh; echo {DONE!r}")
    ran = goal(machine, cases, *options, "--max-refusals", "1")
    assert ran.returncode != 0
    assert [(item["check"], item["passed"]) for item in events(machine, "CheckEnded")] == [
        ("bash check.sh", True),
        ("frozen: check.sh", False),
    ]


def test_a_check_that_puts_itself_back_while_it_runs_does_not_pass(machine: Machine) -> None:
    options = frozen_check(machine)
    sly = "cp check.sh keep; echo 'cp keep check.sh; exit 0' > check.sh"
    ran = goal(machine, engine(machine, other=f"{sly}; echo {DONE!r}"), *options, "--max-refusals", "1")
    assert ran.returncode != 0
    assert (machine.workspace / "check.sh").read_text() == "test -f result\n"


def test_an_untouched_frozen_check_passes_and_alone_verifies_nothing(machine: Machine) -> None:
    options = frozen_check(machine)
    ran = goal(machine, engine(machine, other=f"touch result; echo {DONE!r}"), *options)
    assert ran.returncode == 0, ran.stderr
    assert [item["passed"] for item in events(machine, "CheckEnded")] == [True, True]


def test_nothing_is_verified_by_files_that_only_stayed_as_they_were(machine: Machine) -> None:
    _, _, *frozen = frozen_check(machine)
    assert goal(machine, engine(machine, other=f"echo {DONE!r}"), *frozen).returncode == 0
    assert events(machine, "GoalEnded")[0]["grade"] == "claimed"


def test_a_frozen_check_verifies_what_it_imports_from_the_agent(machine: Machine) -> None:
    (machine.workspace / "check.py").write_text("import work\nassert work.answer == 42\n")
    cases = engine(machine, other=f"echo answer = 42 > work.py; echo {DONE!r}")
    assert goal(machine, cases, "--check", "python3 check.py", "--frozen", "check.py").returncode == 0
    assert events(machine, "GoalEnded")[0]["grade"] == "verified"


def test_a_cheat_with_the_frozen_evaluator_changes_nothing(machine: Machine) -> None:
    (machine.workspace / "eval.sh").write_text("echo METRIC q=$(cat answer)\n")
    cheat = "echo 9 > answer; echo 'echo METRIC q=0' > eval.sh"
    cases = engine(
        machine, t1=cheat, t2="echo 8 > answer", other=f'cp -r . ../seen; echo "$prompt"; echo {DONE!r}'
    )
    options = (
        "--evaluate",
        "bash eval.sh",
        "--frozen",
        "eval.sh",
        "--minimize",
        "q",
        "--max-iterations",
        "3",
    )
    goal(machine, cases, *options)
    ours = [item for item in events(machine, "MeasurementsTaken") if item.get("is_ours")]
    assert [{each["value"] for each in item["values"]} for item in ours] == [{9.0}, {8.0}, {8.0}]
    assert ours[0]["flags"] == ["measured with the frozen files as they were, since eval.sh is another"]
    prompts = [item["text"] for item in events(machine, "UserSaid")]
    assert "best so far 8 ± 0 (3 repeats), iteration 2" in prompts[2]
    report = json.loads(machine.run("goal", "report", "--json").stdout)
    (metric,) = report["metrics"]
    assert metric["best_iteration"] == 2
    assert "measured with the frozen files as they were" in machine.run("goal", "report").stdout
    assert events(machine, "IterationEnded")[2]["outcome"] == "refused", "a frozen file must stay as it was"

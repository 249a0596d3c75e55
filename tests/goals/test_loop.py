"""Goals as a user runs them: a real process, a fake engine that reads its prompt, real files."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Machine, lines, machine, until

__all__ = ["machine"]

ENGINE = """#!/bin/bash
prompt=$(cat)
turn=$(grep -o '^Turn [0-9]*' <<<"$prompt" | head -1 | tr -dc 0-9)
case $turn in
{cases}
esac
"""
DONE = "<promise>DONE</promise>"


def engine(machine: Machine, **cases: str) -> str:
    """An engine that runs one piece of shell per turn: `t1`, `t2`, …, and `other`."""
    body = "".join(f"{name[1:] if name != 'other' else '*'})\n{code}\n;;\n" for name, code in cases.items())
    path = machine.workspace.parent / "engine.sh"
    path.write_text(ENGINE.format(cases=body))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"exec:{path}"


def events(machine: Machine, kind: str, session: str = "") -> list[dict]:
    found = machine.events(session or machine.only_session()["id"])
    return [event["body"] for event in found if event["kind"] == kind]


def goal(
    machine: Machine, engine: str, *options: str, loop: str = "exploop", text: str = "reach it"
) -> subprocess.CompletedProcess[str]:
    words = ("goal", "start") if loop == "goal" else (loop,)
    return machine.run(*words, text, "--engine", engine, *WAITLESS.get(loop, ()), *options)


WAITLESS = {"exploop": ("--wait-seconds", "0")}


def test_done_on_the_third_turn_ends_with_0_and_is_said_to_be_unverified(machine: Machine) -> None:
    ran = goal(machine, engine(machine, t3=f"echo {DONE!r}", other="echo working; date +%N > f$turn"))
    assert ran.returncode == 0, ran.stderr
    assert [item["iteration"] for item in events(machine, "IterationEnded")] == [1, 2, 3]
    (ended,) = events(machine, "GoalEnded")
    assert ended["ending"] == "done"
    assert "is_verified" not in ended
    assert "unverified" in ran.stderr


def test_done_in_a_fence_or_in_the_prompt_never_counts(machine: Machine) -> None:
    fenced = f"echo '```'; echo {DONE!r}; echo '```'; echo $turn > f$turn"
    ran = goal(machine, engine(machine, other=fenced), "--max-iterations", "2")
    assert ran.returncode == 1
    assert events(machine, "GoalEnded")[0]["ending"] == "iterations"


def test_done_and_then_a_failing_exit_is_a_failure_with_that_code(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other=f"echo {DONE!r}; echo broken >&2; exit 7"))
    assert ran.returncode == 7, ran.stderr
    assert "broken" in ran.stderr
    assert events(machine, "GoalEnded")[0]["ending"] == "failed"


def test_a_refused_done_goes_back_with_the_failing_output(machine: Machine) -> None:
    cases = {
        "t1": f"echo {DONE!r}",
        "t2": f"grep -q 'no result yet' <<<\"$prompt\" && touch result && echo {DONE!r}",
    }
    check = "test -f result || { echo no result yet; exit 3; }"
    ran = goal(machine, engine(machine, **cases), "--check", check)
    assert ran.returncode == 0, ran.stderr
    assert [item["outcome"] for item in events(machine, "IterationEnded")] == ["refused", "done"]
    checks = events(machine, "CheckEnded")
    assert [(item["passed"], item["exit_code"]) for item in checks] == [(False, 3), (True, 0)]
    assert events(machine, "GoalEnded")[0]["is_verified"] is True


def test_done_that_is_refused_too_often_ends_the_goal(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other=f"echo {DONE!r}"), "--check", "false", "--max-refusals", "2")
    assert ran.returncode == 1
    assert [item["outcome"] for item in events(machine, "IterationEnded")] == ["refused", "refused"]
    assert "Done was said 2 times" in events(machine, "GoalEnded")[0]["reason"]


def test_files_and_metrics_can_be_what_done_needs(machine: Machine) -> None:
    cases = {
        "t1": f"echo METRIC t=9 s; echo {DONE!r}",
        "t2": f"echo x > a.csv; echo METRIC t=1 s; echo {DONE!r}",
    }
    ran = goal(machine, engine(machine, **cases), "--file", "a.csv", "--target", "t<=2")
    assert ran.returncode == 0, ran.stderr
    passed = [(item["kind"], item["passed"]) for item in events(machine, "CheckEnded")]
    assert passed == [("file", False), ("target", False), ("file", True), ("target", True)]


def test_nothing_new_for_some_iterations_ends_the_goal(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other="echo thinking"), "--max-idle", "2", loop="goal")
    assert ran.returncode == 5
    assert events(machine, "GoalEnded")[0]["ending"] == "no_progress"
    assert len(events(machine, "IterationEnded")) == 2


def test_the_controller_measures_and_flags_a_changed_evaluator(machine: Machine) -> None:
    (machine.workspace / "bench.sh").write_text("echo METRIC t=$(cat value) s\n")
    (machine.workspace / "value").write_text("5\n")
    cases = {"t1": "echo 4 > value", "t2": "echo 'echo METRIC t=0 s' > bench.sh", "t3": f"echo {DONE!r}"}
    options = (
        "--evaluate",
        "sh bench.sh",
        "--frozen",
        "bench.sh",
        "--minimize",
        "t",
        "--max-iterations",
        "3",
    )
    ran = goal(machine, engine(machine, **cases), *options)
    assert events(machine, "IterationEnded")[-1]["outcome"] == "refused", ran.stderr
    taken = events(machine, "MeasurementsTaken")
    assert [item["values"][0]["value"] for item in taken if item.get("values")] == [4, 0, 0]
    assert "flags" not in taken[0]
    assert "evaluator was changed" in taken[1]["flags"][0]


def test_the_way_a_metric_should_go_is_told_to_the_next_turn_without_an_evaluation(machine: Machine) -> None:
    look = 'grep -q "t (lower is better)" <<<"$prompt" && echo seen > seen'
    cases = {"t1": "echo METRIC t=5 s; echo x > a", "t2": f"{look}; echo {DONE!r}"}
    assert goal(machine, engine(machine, **cases), "--minimize", "t").returncode == 0
    assert (machine.workspace / "seen").exists()


def test_a_value_that_is_said_and_written_into_two_files_is_one_measurement(machine: Machine) -> None:
    csv = "echo q,t > a.csv; for t in 1 2 2; do echo 5,$t; done >> a.csv"
    said = """echo METRIC q=5; echo METRIC q=5; echo '{"q": 5, "t": [1, 2, 2, 3]}' > b.json"""
    assert goal(machine, engine(machine, other=f"{csv}; {said}; echo {DONE!r}")).returncode == 0
    (taken,) = events(machine, "MeasurementsTaken")
    values = sorted((item["metric"], item["value"]) for item in taken["values"])
    assert values == [("q", 5), ("q", 5), ("q", 5), ("t", 1), ("t", 2), ("t", 2), ("t", 3)]


def test_a_file_full_of_numbers_buries_neither_a_metric_that_the_goal_names_nor_the_screen(
    machine: Machine,
) -> None:
    wide = "seq -s , -f col%g 900 > a.csv; for i in $(seq 12); do seq -s , 900; done >> a.csv"
    long = "echo q,acc > b.csv; for i in $(seq 6000); do echo $i,0.9; done >> b.csv"
    options = ("--target", "loss<=0.5", "--target", "acc>=0.9", "--maximize", "acc")
    cases = {
        "t1": f"{wide}; {long}; echo METRIC loss=0.5",
        "t2": f'grep -q "acc (higher is better)" <<<"$prompt" && echo METRIC loss=0.5; echo {DONE!r}',
    }
    ran = goal(machine, engine(machine, **cases), *options)
    assert ran.returncode == 0, ran.stderr[-2000:]
    first = events(machine, "MeasurementsTaken")[0]
    assert len(first["values"]) <= 5000
    assert len({item["metric"] for item in first["values"]}) <= 100
    assert "metrics: only the first 100 are kept" in first["flags"][0]
    assert len(ran.stderr) < 10_000


def test_waiting_for_a_process_is_one_wake_and_no_turn_is_spent(machine: Machine) -> None:
    outside = subprocess.Popen(["sleep", "2"])
    cases = {"t1": f"echo '<pid_number>{outside.pid}</pid_number>'", "t2": f"echo {DONE!r}"}
    try:
        ran = goal(machine, engine(machine, **cases), text=f"wait for process {outside.pid}")
    finally:
        outside.wait()
    assert ran.returncode == 0, ran.stderr
    (woke,) = events(machine, "WaitEnded")
    assert woke["cause"] == "met"
    assert len(events(machine, "IterationEnded")) == 2


def test_the_longest_wait_ends_an_experiment_with_1_and_names_what_still_runs(machine: Machine) -> None:
    outside = subprocess.Popen(["sleep", "60"])
    try:
        said = f"echo '<pid_number>{outside.pid}</pid_number>'"
        ran = goal(
            machine, engine(machine, other=said), "--max-wait-seconds", "1", text=f"process {outside.pid}"
        )
    finally:
        outside.kill()
        outside.wait()
    assert ran.returncode == 1, ran.stderr
    assert events(machine, "GoalEnded")[0]["ending"] == "max_wait"
    assert str(outside.pid) in (machine.workspace / "projects/memory.md").read_text()


STARTS = (
    "nohup sh -c 'until [ -e go ]; do sleep 0.05; done; echo 42 > result' >/dev/null 2>&1 &"
    ' echo "<pid_number>$!</pid_number>"'
)


def let_go(machine: Machine, engine: str, when: str = "WaitStarted") -> None:
    """Pursues the goal to its end; what `STARTS` has started ends once this event is on record."""
    words = ("exploop", "reach it", "--engine", engine, "--wait-seconds", "0", "--file", "result", "--json")
    with machine.start(*words) as ran:
        until(ran, when)
        (machine.workspace / "go").touch()
        _, said = ran.communicate(timeout=100)
    assert ran.returncode == 0, said


def test_what_an_engine_starts_and_names_is_waited_for_by_its_number_here(machine: Machine) -> None:
    let_go(machine, engine(machine, t1=STARTS, t2=f"cat result && echo {DONE!r}"))
    assert len(events(machine, "WaitEnded")) == 1
    (left,) = [item["left_running"] for item in events(machine, "EngineEnded") if "left_running" in item]
    (condition,) = events(machine, "WaitStarted")[0]["conditions"]
    assert condition["pid"] in left


def test_what_an_engine_started_outlives_a_kill_and_wakes_the_rerun_once(machine: Machine) -> None:
    chosen = engine(machine, t1=STARTS, t2=f"cat result && echo {DONE!r}")
    with machine.start("exploop", "reach it", "--engine", chosen, "--json") as first:
        until(first, "WaitStarted")
        first.kill()
    let_go(machine, chosen, when="SessionResumed")
    assert len(events(machine, "WaitStarted")) == len(events(machine, "WaitEnded")) == 1
    assert [item["iteration"] for item in events(machine, "IterationStarted")] == [1, 2]


def test_a_number_that_means_nothing_here_is_not_waited_for(machine: Machine) -> None:
    cases = {"t1": 'true & wait $!; echo "<pid_number>$!</pid_number>"', "t2": f"echo {DONE!r}"}
    assert goal(machine, engine(machine, **cases)).returncode == 0
    assert events(machine, "WaitStarted") == []


def test_an_absurd_process_number_is_told_and_nothing_breaks(machine: Machine) -> None:
    look = 'grep -q "cannot be .99999999999999999999" <<<"$prompt" && touch told'
    cases = {"t1": "echo '<pid_number>99999999999999999999</pid_number>'", "t2": f"{look}; echo {DONE!r}"}
    assert goal(machine, engine(machine, **cases)).returncode == 0
    assert (machine.workspace / "told").exists()


def test_a_prompt_of_200_kib_arrives_whole(machine: Machine) -> None:
    (machine.workspace / "goal.md").write_text("reach it\n" + "x" * 200_000)
    cases = f'printf %s "$prompt" | tr -dc x | wc -c > size; echo {DONE!r}'
    ran = machine.run("exploop", "goal.md", "--engine", engine(machine, other=cases))
    assert ran.returncode == 0, ran.stderr
    assert int((machine.workspace / "size").read_text()) >= 200_000
    assert events(machine, "GoalSet")[0]["source"] == "goal.md"


@pytest.mark.parametrize("words", [(), ("",), ("  ",), ("empty.md",)])
def test_an_empty_goal_is_an_error(machine: Machine, words: tuple[str, ...]) -> None:
    (machine.workspace / "empty.md").write_text("\n")
    ran = machine.run("exploop", *words)
    assert ran.returncode == 2
    assert "empty" in ran.stderr


@pytest.mark.parametrize(
    "option", [("--max-iterations", "0"), ("--wait-seconds", "-1"), ("--max-wait-seconds", "x")]
)
def test_a_wrong_number_is_a_clear_error(machine: Machine, option: tuple[str, str]) -> None:
    ran = machine.run("exploop", "reach it", *option)
    assert ran.returncode == 2
    assert option[0] in ran.stderr


def test_a_second_loop_in_the_same_folder_is_refused_with_the_name_of_the_first(machine: Machine) -> None:
    slow = engine(machine, other="touch began; exec sleep 60")
    with machine.start("exploop", "reach it", "--engine", slow, "--json") as first:
        until(first, "TurnStarted")
        name = machine.only_session()["id"]
        second = machine.run("exploop", "something else", "--engine", slow)
        assert second.returncode == 3
        assert name in second.stderr
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 130


def test_ctrl_c_leaves_a_goal_that_goes_on_where_it_was(machine: Machine) -> None:
    slow = engine(
        machine, t1="echo one > f1", t2="test -f go && echo done || exec sleep 60", t3=f"echo {DONE!r}"
    )
    with machine.start("exploop", "reach it", "--engine", slow, "--json", "--wait-seconds", "0") as first:
        until(first, "IterationEnded")
        until(first, "TurnStarted")
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 130
    (machine.workspace / "go").touch()
    again = machine.run("exploop", "reach it", "--engine", slow, "--wait-seconds", "0")
    assert again.returncode == 0, again.stderr
    numbers = [item["iteration"] for item in events(machine, "IterationStarted")]
    assert numbers == [1, 2, 3], "the same goal went on, in the same session"


def test_pause_and_stop_from_another_process(machine: Machine) -> None:
    slow = engine(machine, other="exec sleep 60")
    with machine.start("goal", "start", "reach it", "--engine", slow, "--json") as first:
        until(first, "TurnStarted")
        name = machine.only_session()["id"]
        assert machine.run("goal", "pause", name).returncode == 0
        assert first.wait(60) == 130
    assert json.loads(machine.run("goal", "list", "--json").stdout)["goal_state"] == "paused"
    assert "recorded" in machine.run("goal", "stop", name).stdout
    assert events(machine, "GoalEnded")[0]["ending"] == "stopped"


def test_a_goal_can_be_changed_and_the_first_one_stays_on_record(machine: Machine) -> None:
    looks = f"grep -q 'another thing' <<<\"$prompt\" && echo {DONE!r} || echo $turn > f$turn"
    ran = goal(machine, engine(machine, other=looks), "--max-iterations", "1")
    assert ran.returncode == 1
    name = machine.only_session()["id"]
    assert machine.run("goal", "change", name, "another", "thing").returncode == 0
    resumed = machine.run("goal", "resume", name, "--max-iterations", "3")
    assert resumed.returncode == 0, resumed.stderr
    memory = (machine.workspace / "projects/memory.md").read_text()
    assert "> reach it" in memory
    assert "> another thing" in memory


def test_an_outage_is_waited_out_and_burns_no_iteration(machine: Machine) -> None:
    model = machine.serve(
        {"text": f"Done.\n\n{DONE}", "faults": [{"kind": "status", "status": 503, "times": 5}]}
    )
    (machine.home / "profiles").mkdir(parents=True)
    (machine.home / "profiles" / "quick.toml").write_text('prompt = "Go."\n[rules]\noutage_wait_s = 0.2\n')
    (machine.home / "config.toml").write_text("[retry]\nwaits_s = [0.01, 0.01, 0.01]\n")
    ran = machine.run("goal", "start", "reach it", "--profile", "quick", "--model", model)
    assert ran.returncode == 0, ran.stderr
    assert [item["iteration"] for item in events(machine, "IterationEnded")] == [1]
    assert events(machine, "WaitEnded")


def test_a_derivation_is_done_when_its_claims_are_proved_by_checks(machine: Machine) -> None:
    write = "mkdir -p projects; cat > projects/claims.toml <<'X'\n{}\nX\n"
    open_claim = '[[claim]]\nname = "a"\nstatement = "1 + 1 = 2"\ncheck = "test -f proof"\ngoal = true\n'
    cases = {
        "t1": write.format(open_claim) + f"echo {DONE!r}",
        "t2": f"touch proof; echo {DONE!r}",
    }
    ran = goal(machine, engine(machine, **cases), loop="drvloop")
    assert ran.returncode == 0, ran.stderr
    assert [item["outcome"] for item in events(machine, "IterationEnded")] == ["refused", "done"]
    assert events(machine, "ClaimChecked")[-1]["status"] == "proved"
    assert events(machine, "GoalEnded")[0]["is_verified"] is True


def test_json_prints_every_event_of_a_goal(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other=f"echo {DONE!r}"), "--json")
    kinds = [event["kind"] for event in lines(ran.stdout)]
    assert kinds[0] == "SessionStarted"
    assert kinds[-1] == "GoalEnded"


def test_the_memory_of_somebody_else_is_put_aside(machine: Machine) -> None:
    place = machine.workspace / "projects"
    place.mkdir()
    (place / "memory.md").write_bytes(b"\x00\xff binary")
    ran = goal(machine, engine(machine, other=f"echo {DONE!r}"))
    assert ran.returncode == 0, ran.stderr
    (aside,) = events(machine, "MemoryKeptAside")
    assert Path(machine.workspace / aside["path"]).read_bytes() == b"\x00\xff binary"


def test_an_engine_that_spoke_before_it_was_interrupted_is_told_everything_again(machine: Machine) -> None:
    speaks = "echo spoken; touch began; test -f go || exec sleep 60; "
    chosen = engine(machine, other=f"{speaks} grep -q '^reach it' <<<\"$prompt\" && echo {DONE!r}")
    with machine.start("exploop", "reach it", "--engine", chosen, "--json") as first:
        while not (machine.workspace / "began").exists():
            assert first.poll() is None
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 130
    said = [part["text"] for item in events(machine, "AssistantSaid") for part in item["parts"]]
    assert "spoken" in said[0]
    (machine.workspace / "go").touch()
    again = goal(machine, chosen)
    assert again.returncode == 0, again.stderr
    assert [item["iteration"] for item in events(machine, "IterationStarted")] == [1]


def test_the_wait_tool_does_not_stand_in_for_the_pause_between_iterations(machine: Machine) -> None:
    pause = "Waited.\n<wait_seconds>1</wait_seconds>"
    model = machine.serve(
        cases=[
            {"contains": "Turn 1 of", "replies": [{"calls": [WAIT]}, {"text": pause}]},
            {"contains": "Turn 2 of", "replies": [{"text": f"Well.\n{DONE}"}]},
        ]
    )
    ran = machine.run("exploop", "reach it", "--model", model)
    assert ran.returncode == 0, ran.stderr
    assert [item["reason"] for item in events(machine, "WaitStarted") if item.get("reason")] == [
        "a pause was asked for"
    ]


WAIT = {"name": "wait", "arguments": {"seconds": 0.05}}


def test_a_pause_of_an_earlier_iteration_is_not_taken_again_by_one_that_failed(machine: Machine) -> None:
    cases = {
        "t1": "echo x > a; echo '<wait_seconds>1</wait_seconds>'",
        "t2": "exit 3",
        "t3": f"echo {DONE!r}",
    }
    ran = goal(machine, engine(machine, **cases), "--wait-seconds", "0", "--max-failures", "2", loop="goal")
    assert ran.returncode == 0, ran.stderr
    assert len(events(machine, "WaitStarted")) == 1


def test_an_engines_exit_code_is_passed_on_only_by_the_classic_loops(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other="exit 4"), "--max-failures", "1", loop="goal")
    assert ran.returncode == 1


def test_stopping_a_paused_goal_ends_what_it_left_running(machine: Machine) -> None:
    chosen = engine(machine, other='nohup sleep 271 >/dev/null 2>&1 & echo "<pid_number>$!</pid_number>"')
    with machine.start("exploop", "reach it", "--engine", chosen, "--json") as first:
        until(first, "WaitStarted")
        name = machine.only_session()["id"]
        assert machine.run("goal", "pause", name).returncode == 0
        assert first.wait(60) == 130
    (left,) = events(machine, "EngineEnded")[-1]["left_running"]
    assert Path(f"/proc/{left}").exists(), "a paused goal may go on, so what it started does"
    assert "1 process ended" in machine.run("goal", "stop", name).stdout
    assert not Path(f"/proc/{left}").exists() or "Z" in Path(f"/proc/{left}/stat").read_text().split()[2]


def test_a_short_pause_in_every_iteration_does_not_hide_that_nothing_changes(machine: Machine) -> None:
    idle = engine(machine, other="echo '<wait_seconds>0.01</wait_seconds>'")
    ran = goal(machine, idle, "--max-idle", "2", loop="goal")
    assert ran.returncode == 5
    assert events(machine, "GoalEnded")[0]["ending"] == "no_progress"


def test_a_job_that_cannot_be_one_does_not_drop_the_wait_for_the_rest(machine: Machine) -> None:
    starts = f"{STARTS}; echo '<slurm_job_number>123.batch</slurm_job_number>'"
    let_go(machine, engine(machine, t1=starts, t2=f"cat result && echo {DONE!r}"))
    assert len(events(machine, "WaitEnded")) == 1


def test_a_profile_given_as_a_file_is_the_same_goal_again_and_found_from_elsewhere(machine: Machine) -> None:
    (machine.workspace / "mine.toml").write_text('prompt = "Go."\n[rules]\nmax_iterations = 1\n')
    chosen = engine(machine, other="echo $turn > f$turn")
    ran = goal(machine, chosen, "--profile", "mine.toml", loop="goal")
    assert ran.returncode == 5
    name = machine.only_session()["id"]
    assert machine.run("goal", "stop", name).returncode == 0
    machine.workspace = machine.workspace.parent
    resumed = machine.run("goal", "resume", name, "--max-iterations", "2")
    assert resumed.returncode == 5, resumed.stderr
    assert len(events(machine, "IterationStarted", name)) == 2


@pytest.mark.parametrize(
    ("cap", "options", "ending", "code"),
    [
        ("calls = 1", (), "steps", 5),
        ("steps = 2", (), "steps", 5),
        ("", ("--max-tokens", "20"), "tokens", 4),
    ],
)
def test_a_cap_of_the_goal_ends_it_by_what_was_used_up(
    machine: Machine, cap: str, options: tuple[str, ...], ending: str, code: int
) -> None:
    machine.home.mkdir()
    (machine.home / "config.toml").write_text(f"[caps.goal]\n{cap}\n")
    write = {"name": "shell", "arguments": {"command": "date +%N > token"}}
    model = machine.serve({"calls": [write]}, {"calls": [write]}, {"calls": [write]})
    ran = machine.run("goal", "start", "spend tokens", "--model", model, "--mode", "auto", *options)
    assert ran.returncode == code, ran.stderr
    (ended,) = events(machine, "GoalEnded")
    assert ended["ending"] == ending


def test_what_only_the_agents_own_figures_show_is_unverified_everywhere(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other=f"echo METRIC q=5; echo {DONE!r}"), "--target", "q>=5")
    assert ran.returncode == 0, ran.stderr
    assert "goal done, unverified: Every check passed (1), on figures" in ran.stderr
    assert "done, unverified" in machine.run("goal", "list").stdout
    assert "unverified" in machine.run("goal", "report").stdout.splitlines()[2]


def test_a_derivation_without_a_claim_is_said_to_be_unverified_for_want_of_one(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other=f"echo {DONE!r}"), loop="drvloop")
    assert ran.returncode == 0, ran.stderr
    assert "done, unverified: The agent says that it is done. It wrote down no claim" in ran.stderr
    report = machine.run("goal", "report").stdout
    assert "It wrote down no claim, so nothing but its word shows it." in report
    assert "done, unverified" in machine.run("goal", "show").stdout


def test_names_of_files_stay_on_their_line_on_the_screen(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other=f"touch $'a\\nb\\e[31m'; echo {DONE!r}"))
    shown = [line for line in ran.stderr.splitlines() if line.startswith("  + ")]
    assert "  + a␊b␛[31m" in shown
    (line,) = [line for line in machine.run("artifacts").stdout.splitlines() if line.startswith("a")]
    assert line.startswith("a␊b␛[31m  0 B")


def test_what_an_engine_left_running_for_its_goal_is_not_said_to_have_been_ended(machine: Machine) -> None:
    start = 'sleep 1 > /dev/null 2>&1 & echo "<pid_number>$!</pid_number>"'
    ran = goal(machine, engine(machine, t1=start, t2=f"echo {DONE!r}"))
    assert ran.returncode == 0, ran.stderr
    assert "has ended. Its exit code is not known here (after" in ran.stderr
    report = machine.run("goal", "report").stdout
    assert "it had left 1 process running (" in report
    assert "were ended" not in report


def test_a_goal_is_watched_to_its_end_and_not_to_that_of_its_first_turn(machine: Machine) -> None:
    cases = {"t1": "touch a; echo '<wait_seconds>0.5</wait_seconds>'", "t2": f"echo {DONE!r}"}
    words = ("exploop", "reach it", "--engine", engine(machine, **cases), "--json")
    with machine.start(*words) as process:
        until(process, "TurnEnded")
        watched = machine.run("tail", "--json", machine.only_session()["id"])
        process.communicate()
    assert lines(watched.stdout)[-1]["kind"] == "GoalEnded"


def test_an_answer_to_a_goal_says_how_to_go_on_with_it(machine: Machine) -> None:
    model = machine.serve(
        {"calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}, {"text": f"Made.\n{DONE}"}
    )
    asked = machine.run("goal", "start", "make it", "--model", model, "--mode", "ask")
    assert asked.returncode == 3, asked.stderr
    session = machine.only_session()["id"]
    answered = machine.run("approve", session)
    assert answered.returncode == 0, answered.stderr
    assert f"mainspring goal resume {session}" in answered.stderr
    assert machine.run("goal", "resume", session).returncode == 0
    assert [item["iteration"] for item in events(machine, "IterationEnded")] == [1]

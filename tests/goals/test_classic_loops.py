"""The classic loops as their users know them: processes, waits, options, folders."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Machine, lines, machine
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]


FREE = ("--max-cost-usd", "1", "--allow-unpriced")


def memory_of(machine: Machine) -> str:
    return (machine.workspace / "projects/memory.md").read_text()


def ended_process() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_a_process_that_does_not_run_is_told_on_the_screen_and_to_the_next_turn(machine: Machine) -> None:
    pid = ended_process()
    cases = {"t1": f"echo '<pid_number>{pid}</pid_number>'", "t2": f'echo "$prompt" > prompt; echo {DONE!r}'}
    ran = goal(machine, engine(machine, **cases), text=f"process {pid}")
    said = f"Process {pid} was named and does not run: it has finished, or was not found."
    assert said in ran.stderr
    assert said in (machine.workspace / "prompt").read_text()
    assert events(machine, "WaitStarted") == []


def test_what_the_last_iteration_named_is_waited_for_and_its_files_are_recorded(machine: Machine) -> None:
    starts = (
        "nohup sh -c 'sleep 1; echo 42 > result' >/dev/null 2>&1 & echo \"<pid_number>$!</pid_number>\""
        "; echo '<wait_seconds>900</wait_seconds>'"
    )
    ran = goal(machine, engine(machine, other=starts), "--max-iterations", "1")
    assert ran.returncode == 1, ran.stderr
    assert events(machine, "GoalEnded")[0]["ending"] == "iterations"
    assert [woke["cause"] for woke in events(machine, "WaitEnded")] == ["met"]
    paths = [item["path"] for event in events(machine, "ArtifactsChanged") for item in event["changes"]]
    assert "result" in paths
    assert "result" in memory_of(machine)


def test_a_longest_wait_of_0_waits_for_nothing(machine: Machine) -> None:
    with subprocess.Popen(["sleep", "300"]) as outside:
        try:
            said = f"echo '<pid_number>{outside.pid}</pid_number>'; rm -f projects/memory.md"
            options = ("--max-wait-seconds", "0")
            ran = goal(machine, engine(machine, other=said), *options, text=f"process {outside.pid}")
        finally:
            outside.kill()
    assert ran.returncode == 1, ran.stderr
    assert events(machine, "GoalEnded")[0]["ending"] == "max_wait"
    assert re.search(rf"Still running.*{outside.pid}", memory_of(machine), re.DOTALL)
    (started,) = events(machine, "GoalSet")
    assert started["rules"]["no_waits"] is True


def test_a_derivation_takes_no_pause_between_its_turns(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other="date +%N > f"), "--max-iterations", "3", loop="drvloop")
    assert ran.returncode == 1, ran.stderr
    assert events(machine, "WaitStarted") == []


def test_the_screen_tells_the_way_through_the_iterations_and_how_to_go_on(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other="date +%N > f"), "--max-iterations", "2")
    assert "◎ iteration 1/2\n" in ran.stderr
    assert f"instructions: {machine.workspace / 'AGENTS.md'}\n" in ran.stderr
    assert f"memory: {machine.workspace / 'projects/memory.md'}\n" in ran.stderr
    (command,) = re.findall(r"go on: mainspring (goal resume \S+ --max-iterations 4)", ran.stderr)
    again = machine.run(*command.split())
    assert again.returncode == 1, again.stderr
    assert "◎ iteration 4/4\n" in again.stderr


def test_the_folder_of_a_loop_is_made(machine: Machine) -> None:
    chosen = engine(machine, other=f"echo {DONE!r}")
    ran = goal(machine, chosen, "-C", "new/place")
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "new/place/projects/memory.md").exists()
    assert goal(machine, chosen, "-C", "other", text=" ").returncode == 2
    assert not (machine.workspace / "other").exists()


def test_skills_without_a_valid_head_are_listed_by_path_up_to_fifty(machine: Machine) -> None:
    for number in range(60):
        folder = machine.workspace / f"skills/s{number:02}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("Just text.\n")
    goal(machine, engine(machine, other=f'echo "$prompt" > prompt; echo {DONE!r}'))
    prompt = (machine.workspace / "prompt").read_text()
    assert prompt.count("SKILL.md (it does not begin with a head") == 50
    assert "and 10 more skills" in prompt


def test_files_are_told_with_what_became_of_them_and_when(machine: Machine) -> None:
    cases = {
        "t1": "echo a > kept; echo b > gone",
        "t2": "echo c >> kept; rm gone; echo d > made",
        "t3": f'echo "$prompt" > prompt; echo {DONE!r}',
    }
    goal(machine, engine(machine, **cases))
    prompt = (machine.workspace / "prompt").read_text()
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.search(rf"- kept \(modified, 4 bytes, {time}", prompt)
    assert re.search(rf"- made \(new, 2 bytes, {time}", prompt)
    assert "- gone (deleted)" in prompt


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("codex", ["-c", 'model_reasoning_effort="high"']),
        ("claude", ["--effort", "high"]),
        ("opencode", ["--variant", "high"]),
    ],
)
def test_the_effort_reaches_the_engines_that_take_one(
    machine: Machine, name: str, argument: list[str]
) -> None:
    script = machine.workspace / "agent.sh"
    script.write_text('cat > /dev/null; printf "%s\\n" "$@" > given\n')
    machine.home.mkdir(parents=True)
    (machine.home / "config.toml").write_text(f'[engines.{name}]\ncommand = ["sh", "agent.sh"]\n')
    words = ("exploop", "reach it", "--engine", name, "--effort", "high", "--max-iterations", "1")
    machine.run(*words, HOME=str(machine.home))  # where the folder of its state is made
    given = (machine.workspace / "given").read_text().splitlines()
    assert given[given.index(argument[0], 1) + 1] == argument[1]


def test_an_effort_is_refused_for_engines_that_take_none(machine: Machine) -> None:
    ran = goal(machine, engine(machine, other=f"echo {DONE!r}"), "--effort", "high")
    assert ran.returncode == 2, ran.stderr
    assert "--effort high" in ran.stderr
    assert lines(machine.run("sessions", "--json").stdout) == []


@pytest.mark.parametrize(
    ("name", "mode", "sandbox"),
    [("read-only", "plan", ""), ("workspace-write", "auto", ""), ("danger-full-access", "yolo", "none")],
)
def test_sandboxes_have_their_classic_names(machine: Machine, name: str, mode: str, sandbox: str) -> None:
    ran = goal(machine, engine(machine, other=f"echo x > f; echo {DONE!r}"), "--sandbox", name, *FREE)
    assert ran.returncode == 0, ran.stderr
    (chosen,) = events(machine, "ModeChosen")
    assert chosen["mode"] == mode
    (started,) = events(machine, "GoalSet")
    assert started.get("sandbox", "") == sandbox
    assert (machine.workspace / "f").exists() is (name != "read-only")


def test_a_folder_that_cannot_be_made_is_named(machine: Machine) -> None:
    Path(machine.workspace / "taken").write_text("")
    ran = goal(machine, engine(machine, other=f"echo {DONE!r}"), "-C", "taken/below")
    assert ran.returncode == 2
    assert "taken/below cannot be made" in ran.stderr


def test_goals_of_one_folder_have_each_their_own_part_of_the_memory_file(machine: Machine) -> None:
    notes = "grep -q found projects/memory.md || sed -i 's/^### State/### State\\n\\nfound: x=3/' projects/memory.md"
    first = engine(machine, other=f"{notes}; echo {DONE!r}")
    assert goal(machine, first, text="the first thing").returncode == 0
    before = memory_of(machine)
    assert "iteration 1 done" in before
    second = engine(machine, other=f'echo "$prompt" > prompt; echo {DONE!r}')
    assert goal(machine, second, text="the second thing").returncode == 0
    memory = memory_of(machine)
    request, rest = memory.split("## Changes of the goal")
    now, earlier = rest.split("## Earlier goals")
    assert "> the second thing" in request
    assert "the first thing" not in request
    assert now.count("iteration 1 done") == 1
    assert "found: x=3" in now, "what was found stays"
    assert "> the first thing" in earlier
    assert earlier.count("iteration 1 done") == 1
    prompt = (machine.workspace / "prompt").read_text()
    assert "the first thing" not in prompt
    assert "found: x=3" in prompt


@pytest.mark.parametrize("name", ["nofile.md", "goals/next", "./task"])
def test_a_goal_that_reads_like_a_missing_file_is_refused(machine: Machine, name: str) -> None:
    ran = goal(machine, engine(machine, other=f"echo {DONE!r}"), text=name)
    assert ran.returncode == 2
    assert f"There is no file {name}." in ran.stderr
    assert lines(machine.run("sessions", "--json").stdout) == []


SERVER = (
    'python3 -c \'import socket; s = socket.create_server(("127.0.0.1", 0)); open("up", "w"); s.accept()\''
)
UP = {"name": "shell", "arguments": {"command": "until [ -e up ]; do sleep 0.05; done"}}


def background(command: str, **options: object) -> dict[str, object]:
    return {"name": "shell", "arguments": {"command": command, "background": True, **options}}


@pytest.mark.parametrize("options", [{}, {"service": True}])
def test_a_server_of_the_agent_is_not_waited_for(machine: Machine, options: dict[str, bool]) -> None:
    turns = [
        [{"calls": [background(SERVER, **options)]}, {"calls": [UP]}, {"text": "It serves."}],
        [{"text": f"Done.\n\n{DONE}"}],
    ]
    model = machine.serve(
        cases=[{"contains": f"Turn {n} of", "replies": each} for n, each in enumerate(turns, 1)]
    )
    words = ("exploop", "reach it", "--model", model, "--wait-seconds", "0", "--max-wait-seconds", "250")
    ran = machine.run(*words, "--mode", "yolo", *FREE)
    assert ran.returncode == 0, ran.stderr
    assert events(machine, "WaitStarted") == []
    said = "p1 listens on port"
    assert (said in ran.stderr) is (not options)
    assert (said in str(machine.seen[-1])) is (not options)


def test_work_is_waited_for_also_when_it_listens_and_has_an_end(machine: Machine) -> None:
    server = f"{SERVER} & sleep 1; kill $!"
    turns = [
        [{"calls": [background(server, timeout_s=60)]}, {"calls": [UP]}, {"text": "It runs."}],
        [{"text": f"Done.\n\n{DONE}"}],
    ]
    model = machine.serve(
        cases=[{"contains": f"Turn {n} of", "replies": each} for n, each in enumerate(turns, 1)]
    )
    ran = machine.run("exploop", "reach it", "--model", model, "--wait-seconds", "0", "--mode", "yolo", *FREE)
    assert ran.returncode == 0, ran.stderr
    (started,) = events(machine, "WaitStarted")
    assert [item["handle"] for item in started["conditions"]] == ["p1"]

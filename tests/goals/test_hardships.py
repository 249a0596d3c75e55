"""What goes wrong around a goal in a night, as a user would have it: real processes, files and engines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Machine, machine, until
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]

UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

REUSE = """
import json, subprocess, sys, time
from pathlib import Path
first = subprocess.Popen(["sleep", "300"])
Path("pid").write_text(f"<pid_number>{first.pid}</pid_number>")
command = [word.replace("NUMBER", str(first.pid)) for word in sys.argv[1:]]
goal = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
while json.loads(goal.stdout.readline())["kind"] != "WaitStarted":
    pass
goal.kill()
goal.wait()
first.kill()
first.wait()
time.sleep(0.03)  # start times have a resolution of 10 ms
Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
second = subprocess.Popen(["sleep", "300"])
assert second.pid == first.pid, (second.pid, first.pid)
sys.exit(subprocess.run(command, stdout=subprocess.DEVNULL).returncode)
"""


def prompts(machine: Machine) -> list[str]:
    return [item["text"] for item in events(machine, "UserSaid")]


def test_a_number_that_is_given_away_while_nobody_looks_ends_the_wait_of_a_goal(machine: Machine) -> None:
    can = shutil.which("unshare") and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False)
    if not can or can.returncode:
        pytest.skip("no pid namespace can be made here; tests/waits shows the same with forged identities")
    takes = engine(machine, t1="cat pid; touch f1", t2=f"echo {DONE!r}")
    command = [sys.executable, "-m", "mainspring", "exploop", "wait for NUMBER", "--json", "--engine", takes]
    ran = subprocess.run(
        [*UNSHARE, sys.executable, "-c", REUSE, *command],
        cwd=machine.workspace,
        env=machine.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    (woke,) = events(machine, "WaitEnded")
    assert woke["cause"] == "met"
    assert "its number belongs to another process now" in prompts(machine)[1]


def test_a_zombie_is_dead(machine: Machine) -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    said = f"touch f1; echo '<pid_number>{zombie.pid}</pid_number>'"
    ran = goal(machine, engine(machine, t1=said, t2=f"echo {DONE!r}"), text=f"wait for {zombie.pid}")
    zombie.wait()
    assert ran.returncode == 0, ran.stderr
    assert events(machine, "WaitStarted") == []
    assert f"Process {zombie.pid} was named and does not run" in prompts(machine)[1]


def test_slurm_jobs_are_waited_for_and_how_they_ended_is_told(machine: Machine) -> None:
    programs = machine.workspace.parent / "bin"
    programs.mkdir()
    for name, script in (("sacct", "echo 'FAILED|2:0|Unknown'"), ("squeue", "exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    cases = {
        "t1": "echo '<slurm_job_number>123</slurm_job_number>'",
        "t2": f"echo {DONE!r}",
    }
    words = ("exploop", "reach it", "--engine", engine(machine, **cases))
    ran = machine.run(*words, PATH=f"{programs}:{os.environ['PATH']}")
    assert ran.returncode == 0, ran.stderr
    assert "Slurm job 123 ended: FAILED, exit code 2:0" in prompts(machine)[1]


@contextmanager
def sleeping() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "300"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_work_that_does_not_move_wakes_the_agent_early(machine: Machine) -> None:
    with sleeping() as pid:
        cases = {"t1": f"echo '<pid_number>{pid}</pid_number>'", "t2": f"echo {DONE!r}"}
        ran = goal(machine, engine(machine, **cases), "--stall", "0.5", text=f"wait for {pid}")
    assert ran.returncode == 0, ran.stderr
    assert [item["cause"] for item in events(machine, "WaitEnded")] == ["stalled"]
    assert "Nothing used the processor" in prompts(machine)[1]


def test_the_time_of_a_goal_is_over_also_while_it_waits(machine: Machine) -> None:
    with sleeping() as pid:
        said = f"echo '<pid_number>{pid}</pid_number>'"
        ran = goal(
            machine, engine(machine, other=said), "--max-time", "6", loop="goal", text=f"wait for {pid}"
        )
    assert ran.returncode == 5, ran.stderr
    assert events(machine, "GoalEnded")[0]["ending"] == "time"
    assert [item["cause"] for item in events(machine, "WaitEnded")] == ["deadline"]


def test_an_engine_that_crashes_in_its_turn_is_a_failure_that_the_next_turn_is_told(machine: Machine) -> None:
    cases = {"t1": f"echo {DONE!r}; echo half > f1; kill -9 $$", "t2": f"echo {DONE!r}"}
    ran = goal(machine, engine(machine, **cases), loop="goal")
    assert ran.returncode == 0, ran.stderr
    assert [item["outcome"] for item in events(machine, "IterationEnded")] == ["failed", "done"]
    assert "Turn 1 failed" in prompts(machine)[1]
    assert "f1" in prompts(machine)[1], "what it left behind is known"


def test_20000_artifacts_are_a_count_and_a_handle(machine: Machine) -> None:
    cases = {
        "t1": "mkdir d && cd d && seq 20000 | split -l 1 -a 5 -d - f",
        "t2": "rm -r d",
        "t3": f"echo {DONE!r}",
    }
    ran = goal(machine, engine(machine, **cases), "--json")
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if '"ArtifactsChanged"' in line]
    changed = [json.loads(line)["body"] for line in lines]
    assert [(item.get("new", 0), item.get("deleted", 0)) for item in changed[-2:]] == [(20000, 0), (0, 20000)]
    assert max(map(len, lines)) < 32_000
    assert max(map(len, prompts(machine))) < 40_000
    memory = (machine.workspace / "projects/memory.md").read_text()
    assert len(memory) < 10_000
    assert "20,000 deleted" in memory
    assert "blob:" in memory


def test_the_memory_of_a_goal_is_where_the_user_wants_it(machine: Machine) -> None:
    ran = goal(machine, engine(machine, t1=f"echo {DONE!r}"), "--memory", "notes/mine.md")
    assert ran.returncode == 0, ran.stderr
    assert "# Original request" in (machine.workspace / "notes/mine.md").read_text()
    assert "notes/mine.md" in prompts(machine)[0]
    assert not (machine.workspace / "projects").exists()


@pytest.mark.parametrize("damage", ["printf '\\0\\1'", "echo something else", "printf '\\377'"])
def test_a_memory_file_that_an_iteration_spoils_is_put_aside_and_begun_anew(
    damage: str, machine: Machine
) -> None:
    cases = {"t1": f"echo one > f1; {damage} > projects/memory.md", "t2": f"echo {DONE!r}"}
    ran = goal(machine, engine(machine, **cases))
    assert ran.returncode == 0, ran.stderr
    (aside,) = events(machine, "MemoryKeptAside")
    assert (machine.workspace / aside["path"]).exists()
    memory = (machine.workspace / "projects/memory.md").read_text()
    assert "> reach it" in memory
    assert "iteration 1 continued" in memory
    assert "iteration 2 done" in memory


def test_a_memory_file_that_is_taken_away_is_begun_anew(machine: Machine) -> None:
    cases = {"t1": "echo one > f1; rm -r projects", "t2": f"echo {DONE!r}"}
    ran = goal(machine, engine(machine, **cases))
    assert ran.returncode == 0, ran.stderr
    assert "> reach it" in (machine.workspace / "projects/memory.md").read_text()


@contextmanager
def writing(memory: Path) -> Iterator[list[str]]:
    """Somebody who adds a line to the file again and again while the block runs."""
    written, over = list[str](), threading.Event()

    def write() -> None:
        while not over.wait(0.02):
            if memory.exists():
                line = f"- line {len(written)} of somebody"
                with memory.open("a") as file:
                    file.write(f"{line}\n")
                written.append(line)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join()


def test_somebody_may_write_the_memory_file_all_the_time(machine: Machine) -> None:
    memory = machine.workspace / "projects/memory.md"
    with writing(memory) as written:
        ran = goal(machine, engine(machine, other="echo $turn > f$turn"), "--max-iterations", "4")
    assert ran.returncode == 1, ran.stderr
    assert len(events(machine, "IterationEnded")) == 4, ran.stderr
    text = memory.read_text()
    assert [f"iteration {number} continued" in text for number in (1, 2, 3, 4)] == [True] * 4
    assert written
    lost = len(written) - text.count("of somebody")
    assert lost <= max(2, len(written) // 10), "what falls between our last look and the rename"


@pytest.mark.parametrize(("first", "second"), [(".", "in"), ("in", ".")])
def test_a_loop_around_or_inside_the_folder_of_another_is_refused_with_its_name(
    machine: Machine, first: str, second: str
) -> None:
    (machine.workspace / "in").mkdir()
    patient = engine(machine, other="sleep 300")
    words = ("exploop", "reach it", "--engine", patient, "--json")
    process = machine.start(*words, "-C", first)
    try:
        until(process, "IterationStarted")
        refused = machine.run("exploop", "another", "--engine", patient, "-C", second)
        assert refused.returncode == 3, refused.stderr
        assert machine.only_session()["id"] in refused.stderr
        assert "already works in" in refused.stderr
    finally:
        process.terminate()
        process.communicate()
    done = engine(machine, other=f"echo {DONE!r}")
    assert machine.run("exploop", "another", "--engine", done, "-C", second).returncode == 0

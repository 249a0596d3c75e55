"""What an outside engine leaves running in any iteration of a goal: listed, and ended with the goal."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Machine, lines, machine, until
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]

LEAVES = "nohup sleep 272 > /dev/null 2>&1 &"


def left(machine: Machine) -> list[int]:
    return [pid for item in events(machine, "EngineEnded") for pid in item.get("left_running", ())]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_done_ends_what_an_earlier_iteration_left_running(machine: Machine) -> None:
    ran = goal(machine, engine(machine, t1=LEAVES, t2="touch b", t3=f"echo {DONE!r}"))
    assert ran.returncode == 0, ran.stderr
    (pid,) = left(machine)
    assert not is_alive(pid)
    assert events(machine, "GoalEnded")[0]["left_running"] == [pid]
    report = machine.run("goal", "report").stdout
    assert "Processes that ended with the goal" in report
    assert f"process {pid} (iteration 1, " in report


def test_a_limit_leaves_it_running_ps_and_the_report_list_it_and_stop_ends_it(machine: Machine) -> None:
    ran = goal(machine, engine(machine, t1=LEAVES, t2="touch b"), "--max-iterations", "2")
    assert ran.returncode == 1, ran.stderr
    (pid,) = left(machine)
    assert is_alive(pid)
    (row,) = lines(machine.run("ps", "--json").stdout)
    assert (row["pid"], row["state"], row["command"]) == (pid, "left", "sleep 272")
    assert f"process {pid} (iteration 1, " in machine.run("goal", "report").stdout
    assert "1 process ended now" in machine.run("goal", "stop").stdout
    assert not is_alive(pid)
    assert not machine.run("ps", "--json").stdout


def test_stop_ends_what_every_process_of_the_goal_left_running(machine: Machine) -> None:
    cases = {"t1": LEAVES, "t2": "touch b; echo '<wait_seconds>600</wait_seconds>'"}
    words = ("goal", "start", "reach it", "--engine", engine(machine, **cases), "--json")
    with machine.start(*words) as first:
        until(first, "WaitStarted")
        first.kill()
    (pid,) = left(machine)
    assert is_alive(pid), "a killed goal may go on, so what it started does"
    with machine.start("goal", "resume", "--json") as second:
        until(second, "SessionResumed")
        assert machine.run("goal", "stop").returncode == 0
        second.communicate(timeout=100)
    assert not is_alive(pid)


def test_what_was_waited_for_has_ended_and_is_not_listed(machine: Machine) -> None:
    start = 'sleep 1 > /dev/null 2>&1 & echo "<pid_number>$!</pid_number>"'
    ran = goal(machine, engine(machine, t1=start, t2="touch b"), "--max-iterations", "2")
    assert ran.returncode == 1, ran.stderr
    assert "Processes without a recorded end" not in machine.run("goal", "report").stdout

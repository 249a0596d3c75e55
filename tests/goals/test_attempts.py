"""Attempts at the iterations of a goal: the same files each time, the checks of the goal, one budget."""

from __future__ import annotations

import signal
from typing import Any

from tests.cli.conftest import Machine, machine, until
from tests.goals.test_loop import DONE, events

__all__ = ["machine"]

RIGHT = ("--check", "grep -q right answer", "--max-iterations", "1", "--mode", "edits")


def writes(content: str, path: str = "answer") -> dict[str, Any]:
    return {"calls": [{"name": "write", "arguments": {"path": path, "content": content}}]}


def serve(machine: Machine, *attempts: list[dict[str, Any]]) -> str:
    """A model that does something else in each attempt."""
    cases = [
        {"contains": f'"seed":{number},', "replies": replies} for number, replies in enumerate(attempts, 1)
    ]
    return machine.serve(*attempts[0], cases=cases[1:])


def test_an_iteration_is_tried_until_the_checks_of_the_goal_pass(machine: Machine) -> None:
    first = [writes("wrong\n"), writes("junk\n", "junk"), {"text": DONE}]
    model = serve(machine, first, [writes("right\n"), {"text": f"It is right.\n{DONE}"}])
    ran = machine.run("goal", "start", "answer it", "--model", model, *RIGHT, "--attempts", "3")
    assert ran.returncode == 0, ran.stderr
    assert [event["attempt"] for event in events(machine, "AttemptStarted")] == [1, 2]
    (kept,) = events(machine, "AttemptsEnded")
    assert (kept["kept"], kept["is_passed"]) == (2, True)
    (iteration,) = events(machine, "IterationEnded")
    assert iteration["outcome"] == "done"
    assert (machine.workspace / "answer").read_text() == "right\n"
    assert not (machine.workspace / "junk").exists()
    assert {check["iteration"] for check in events(machine, "CheckEnded")} == {1}


def test_what_is_judged_is_the_attempt_that_was_kept(machine: Machine) -> None:
    second = [writes("wrong\n" * 9), {"text": "Still at work."}]
    model = serve(machine, [writes("wrong\n"), {"text": DONE}], second)
    ran = machine.run("goal", "start", "answer it", "--model", model, *RIGHT, "--attempts", "2")
    assert ran.returncode == 5, ran.stderr
    assert events(machine, "AttemptsEnded")[0]["kept"] == 1
    (iteration,) = events(machine, "IterationEnded")
    assert iteration["outcome"] == "refused"  # the kept one said that it is done
    assert (machine.workspace / "answer").read_text() == "wrong\n"


def test_the_limits_of_an_iteration_hold_for_all_its_attempts(machine: Machine) -> None:
    steps = [writes(f"wrong {number}\n") for number in range(9)]
    model = serve(machine, [*steps[:2], {"text": "no"}], steps, steps)
    limited = (*RIGHT, "--attempts", "3", "--iteration-steps", "5")
    ran = machine.run("goal", "start", "answer it", "--model", model, *limited)
    assert ran.returncode == 5, ran.stderr
    assert len(machine.seen) == 5
    assert [event["attempt"] for event in events(machine, "AttemptEnded")] == [1, 2]


def test_a_goal_that_was_killed_makes_no_attempt_twice(machine: Machine) -> None:
    right = [writes("right\n"), {"text": DONE}]
    model = serve(machine, [writes("wrong\n"), {"text": "no"}], right)
    words = ("goal", "start", "answer it", "--model", model, *RIGHT, "--attempts", "3", "--json")
    process = machine.start(*words)
    until(process, "AttemptEnded")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    session = machine.only_session()["id"]
    ran = machine.run("goal", "resume", session)
    assert ran.returncode == 0, ran.stderr
    assert [event["attempt"] for event in events(machine, "AttemptStarted")] == [1, 2]
    assert events(machine, "AttemptsEnded")[0]["kept"] == 2


def test_without_attempts_nothing_is_recorded_of_them(machine: Machine) -> None:
    model = machine.serve(writes("right\n"), {"text": DONE})
    assert machine.run("goal", "start", "answer it", "--model", model, *RIGHT).returncode == 0
    assert events(machine, "AttemptsStarted") == []

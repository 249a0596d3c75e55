"""Goals where the memory file cannot be written: in plan mode, and where something else is in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]


def test_a_goal_in_plan_mode_writes_nothing_and_the_next_turn_knows_the_last_one(machine: Machine) -> None:
    look = 'grep -q "^> the plan: left, then right" <<<"$prompt" && grep -q "iteration 1 continued"'
    cases = {
        "t1": "touch mine; echo 'the plan: left, then right'; echo over",
        "t2": f'{look} <<<"$prompt" && echo {DONE!r}',
    }
    ran = goal(machine, engine(machine, **cases), "--mode", "plan", "--max-iterations", "2")
    assert ran.returncode == 0, ran.stderr
    assert not list(machine.workspace.iterdir())
    assert not events(machine, "NoteAdded")


@pytest.mark.parametrize("kind", ["a file", "a link out of the workspace"])
def test_a_memory_file_that_cannot_be_used_is_a_sentence_and_not_a_traceback(
    machine: Machine, kind: str, tmp_path: Path
) -> None:
    place = machine.workspace / "projects"
    if kind == "a file":
        place.touch()
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    chosen = engine(machine, other=f"echo {DONE!r}")
    ran = goal(machine, chosen)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "mainspring: The memory file projects/memory.md cannot be used: " in ran.stderr
    assert "--memory" in ran.stderr
    again = goal(machine, chosen, "--memory", "memory.md")
    assert again.returncode == 0, again.stderr
    assert (machine.workspace / "memory.md").exists()

"""What a person sees of a goal while it runs and when it is told something."""

from __future__ import annotations

import re

from tests.cli.conftest import Machine, machine, until
from tests.goals.test_loop import DONE, engine, goal

__all__ = ["machine"]

TWO_MESSAGES = r"""cat > /dev/null
echo '{"type": "thread.started", "thread_id": "t"}'
echo '{"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "First this."}}'
echo '{"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": "Then that."}}'
echo '{"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}'
"""


def test_a_turn_of_a_goal_that_is_not_done_is_not_said_to_be_done(machine: Machine) -> None:
    ran = goal(machine, engine(machine, t2=f"echo {DONE!r}", other="echo x > f"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("■ turn ended (") == 2
    assert "■ done" not in ran.stderr
    assert not re.search(r"\b0 steps|\b1 (steps|processes|iterations)\b", ran.stderr)


def test_two_messages_in_a_row_stand_on_lines_of_their_own(machine: Machine) -> None:
    script = machine.workspace / "codex.sh"
    script.write_text(TWO_MESSAGES)
    machine.home.mkdir(parents=True)
    (machine.home / "config.toml").write_text('[engines.codex]\ncommand = ["sh", "codex.sh"]\n')
    home = str(machine.home)  # where the folder of its state is made
    ran = machine.run("exploop", "reach it", "--engine", "codex", "--max-iterations", "1", HOME=home)
    assert ran.stdout == "First this.\nThen that.\n", ran.stderr


def test_pause_and_stop_say_what_became_of_the_goal(machine: Machine) -> None:
    hang = engine(machine, other="echo $turn > begun; exec sleep 300")
    words = ("exploop", "reach it", "--engine", hang, "--json")
    for order, said in (("pause", "paused"), ("stop", "stopped")):
        with machine.start(*words) as running:
            try:
                until(running, "TurnStarted")
                told = machine.run("goal", order)
                assert told.stdout.endswith(f": {said}\n"), told
            finally:
                running.kill()

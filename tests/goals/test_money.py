"""The money of a goal whose engine tells only at its end what it cost: never overspent, and not lost at once."""

from __future__ import annotations

import signal

import pytest

from tests.cli.conftest import Machine, machine, until
from tests.goals.test_loop import events

__all__ = ["machine"]

AGENT = r"""[[ $* == *--version* ]] && { echo 'fake 1'; exit; }
while [ $# -gt 0 ]; do [ "$1" = --max-budget-usd ] && echo $2 >> budgets; shift; done
prompt=$(cat)
turn=$(grep -o '^Turn [0-9]*' <<<"$prompt" | head -1 | tr -dc 0-9)
message() { echo '{"type":"assistant","message":{"id":"'$1'","role":"assistant","content":[
{"type":"text","text":"'"$1"'"}],"usage":{"input_tokens":600,"output_tokens":100}}}' | tr -d '\n'; echo; }
result() { message 'Made.\n<promise>DONE</promise>'
echo '{"type":"result","subtype":"'$1'","is_error":'$2',"result":"","total_cost_usd":'$3',
"usage":{"input_tokens":600,"output_tokens":100}}' | tr -d '\n'; echo; }
echo '{"type":"system","subtype":"init","session_id":"c'$turn'","model":"nobodys"}'
message hm
date +%N > work
"""


def start(machine: Machine, code: str, *options: str) -> tuple[str, ...]:
    machine.home.mkdir()
    agent = machine.workspace.parent / "claude.sh"
    agent.write_text(AGENT + code)
    (machine.home / "config.toml").write_text(f'[engines.claude]\ncommand = ["bash", "{agent}"]\n')
    words = ("goal", "start", "make it", "--engine", "claude", "--max-cost-usd", "1", "--allow-unpriced")
    return (*words, "--mode", "yolo", "--sandbox", "none", *options)


def budgets(machine: Machine) -> list[float]:
    """What the agent was told, run after run, that it may cost."""
    return [float(line) for line in (machine.workspace / "budgets").read_text().split()]


def test_a_killed_engine_costs_its_share_and_the_goal_goes_on(machine: Machine) -> None:
    ran = machine.run(*start(machine, "[ $turn = 1 ] && kill -9 $$; result success false 0.1"))
    assert ran.returncode == 0, ran.stderr
    assert budgets(machine) == [0.25, 0.1875]
    assert [item["usd"] for item in events(machine, "SpendSettled")] == [0.25, 0.1]


def test_an_engine_that_always_dies_never_takes_more_than_the_goal_has(machine: Machine) -> None:
    ran = machine.run(*start(machine, "kill -9 $$", "--max-failures", "20"))
    assert ran.returncode == 4, ran.stderr
    assert events(machine, "GoalEnded")[0]["ending"] == "cost"
    taken = [item["usd"] for item in events(machine, "SpendSettled")]
    assert taken == pytest.approx([0.25, 0.1875, 0.140625, 0.10546875, 0.1, 0.1, 0.1, 0.01640625])


def test_what_a_turn_cost_that_died_with_us_is_not_forgotten(machine: Machine) -> None:
    process = machine.start(
        *start(machine, "[ -e again ] || exec sleep 300\nresult success false 0.1"), "--json"
    )
    until(process, "SpendReserved")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (machine.workspace / "again").touch()
    ran = machine.run("goal", "resume", "--mode", "yolo")
    assert ran.returncode == 0, ran.stderr
    assert budgets(machine)[-1] == 0.1875
    told = machine.run("goal", "report").stdout
    assert "0.3500 USD" in told, told
    assert "1 request never settled" in told


def test_a_turn_that_used_up_its_share_is_not_the_end_of_the_goal(machine: Machine) -> None:
    code = "[ $turn = 1 ] && { result error_max_budget_usd true 0.25; exit 1; }; result success false 0.1"
    ran = machine.run(*start(machine, code))
    assert ran.returncode == 0, ran.stderr
    assert [item["outcome"] for item in events(machine, "IterationEnded")] == ["continued", "done"]


def test_a_turn_with_a_cap_of_its_own_may_take_all_of_that(machine: Machine) -> None:
    ran = machine.run(*start(machine, "result success false 0.1", "--iteration-cost-usd", "0.8"))
    assert ran.returncode == 0, ran.stderr
    assert budgets(machine) == [0.8]

"""A session that goes on with another model: a real process against two scripted servers."""

from __future__ import annotations

import time
from typing import Any

from tests.cli.conftest import Machine, lines

DO = {"name": "shell", "arguments": {"command": "echo hello"}}
FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
DOWN = {"kind": "status", "status": 500, "times": 99}


def serve(machine: Machine, *replies: dict[str, Any], wire: str = "openai-compatible", **script: Any) -> str:
    """Serves these replies, tried again without a wait."""
    machine.home.mkdir(exist_ok=True)
    (machine.home / "config.toml").write_text("[retry]\nwaits_s = [0]\nrate_limit_waits_s = [0]\n")
    machine.serve(*replies, **script)
    url = machine.servers[-1].url
    return f"{wire}@{url.removesuffix('/v1') if wire == 'anthropic' else url}#test-{len(machine.servers)}"


def bodies(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in events if event["kind"] == kind]


def test_a_model_that_stays_down_is_replaced_by_the_next_one_and_that_is_shown(machine: Machine) -> None:
    first = serve(machine, faults=[DOWN])
    second = serve(machine, {"text": "I am the second."})
    ran = machine.run("run", "--model", first, "--model", second, "go")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "I am the second.\n"
    assert f"model {second} ({first} failed" in ran.stderr
    assert [len(server.seen) for server in machine.servers] == [4, 1]


def test_the_second_model_is_sent_the_whole_history_in_its_own_wire_and_stays_after_a_resume(
    machine: Machine,
) -> None:
    told = {"text": "I look.", "thinking": "Hm.", "calls": [DO]}
    first = serve(machine, told, {"faults": [DOWN]}, wire="anthropic")
    second = serve(machine, told, {"text": "Done by the second."}, {"text": "Still the second."})
    ran = machine.run("run", "--model", first, "--fallback", second, *FREE, "go")
    assert ran.returncode == 0, ran.stderr
    _, _, user, reply, result = machine.seen[0].json()["messages"]
    assert user == {"role": "user", "content": "go"}
    assert reply["content"] == "I look."
    assert "Hm." not in str(reply)
    assert result["tool_call_id"] == reply["tool_calls"][0]["id"]
    assert "hello" in result["content"]
    asked_first = len(machine.servers[0].seen)
    again = machine.run("resume", machine.only_session()["id"], "and now?", *FREE)
    assert again.stdout == "Still the second.\n"
    assert len(machine.servers[0].seen) == asked_first


def test_thinking_of_one_wire_is_not_replayed_to_the_other_way_round(machine: Machine) -> None:
    told = {"text": "I look.", "thinking": "Hm.", "calls": [DO]}
    first = serve(machine, told, {"faults": [DOWN]})
    second = serve(machine, told, {"text": "Done by the second."}, wire="anthropic")
    ran = machine.run("run", "--model", first, "--model", second, *FREE, "go", ANTHROPIC_API_KEY="k")
    assert ran.returncode == 0, ran.stderr
    *_, user, reply, result = machine.seen[0].json()["messages"]
    assert user["role"] == "user"
    assert [block["type"] for block in reply["content"]] == ["text", "tool_use"]
    assert result["content"][0]["tool_use_id"] == reply["content"][1]["id"]


def test_when_all_fail_there_is_one_ending_that_names_each_and_the_requests_are_bounded(
    machine: Machine,
) -> None:
    first = serve(machine, faults=[DOWN])
    second = serve(machine, faults=[{**DOWN, "status": 402}])
    ran = machine.run("run", "--json", "--model", first, "--model", second, "go")
    assert ran.returncode == 1
    (ended,) = bodies(lines(ran.stdout), "TurnEnded")
    assert ended["ending"] == "failed"
    assert first in ended["detail"]
    assert second in ended["detail"]
    assert [len(server.seen) for server in machine.servers] == [4, 1]


def test_a_fault_that_another_model_would_have_too_does_not_switch(machine: Machine) -> None:
    first = serve(machine, faults=[{**DOWN, "status": 401}])
    second = serve(machine, {"text": "never"})
    ran = machine.run("run", "--model", first, "--model", second, "go")
    assert ran.returncode == 1
    assert machine.seen == []


def test_a_limit_longer_than_our_patience_ends_as_waiting_with_its_time_and_the_session_goes_on_later(
    machine: Machine,
) -> None:
    limited = {"kind": "status", "status": 429, "retry_after": 3600}
    model = serve(machine, {"text": "Here I am again."}, faults=[limited])
    with (machine.home / "config.toml").open("a") as config:
        config.write("[waits]\nmax_quota_wait_s = 600\n")
    before_us = time.time_ns() // 1000
    ran = machine.run("run", "--json", "--model", model, "go")
    assert ran.returncode == 3
    assert len(machine.seen) == 1
    (ended,) = bodies(lines(ran.stdout), "TurnEnded")
    assert ended["ending"] == "waiting"
    assert 3600e6 <= ended["resume_at_us"] - before_us <= 3700e6
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(-(-ended["resume_at_us"] // 1_000_000)))
    assert at in ended["remedy"]
    assert machine.only_session()["state"] == "waiting"
    resumed = machine.run("resume", machine.only_session()["id"], "now, please")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == "Here I am again.\n"


def test_a_long_rate_limit_is_not_waited_for_when_there_is_another_model(machine: Machine) -> None:
    first = serve(machine, faults=[{"kind": "status", "status": 429, "retry_after": 3600}])
    second = serve(machine, {"text": "At once."})
    ran = machine.run("run", "--model", first, "--fallback", second, "go")
    assert (ran.returncode, ran.stdout) == (0, "At once.\n")
    assert len(machine.servers[0].seen) == 1


def test_an_unpriced_fallback_under_a_cost_limit_is_refused_before_anything_is_spent(
    machine: Machine,
) -> None:
    first = serve(machine, {"text": "never"})
    prices = f'[prices."{first}"]\ninput = 1.0\noutput = 1.0\n'
    (machine.home / "config.toml").write_text(prices)
    other = "openai-compatible@http://model.invalid/v1#m"
    ran = machine.run("run", "--model", first, "--fallback", other, "--max-cost-usd", "1", "go")
    assert ran.returncode == 2
    assert other in ran.stderr
    assert machine.seen == []


def test_the_models_of_the_settings_are_a_line_too(machine: Machine) -> None:
    first, second = serve(machine, faults=[DOWN]), serve(machine, {"text": "I am the second."})
    config = machine.home / "config.toml"
    config.write_text(f'models = ["{first}", "{second}"]\n' + config.read_text())
    ran = machine.run("run", "go")
    assert (ran.returncode, ran.stdout) == (0, "I am the second.\n"), ran.stderr


def test_the_effort_is_asked_for_and_kept_for_the_session(machine: Machine) -> None:
    model = serve(machine, {"text": "Hard."}, {"text": "Hard again."})
    machine.run("run", "--model", model, "--effort", "low", "go")
    machine.run("resume", machine.only_session()["id"], "again")
    assert [seen.json()["reasoning_effort"] for seen in machine.seen] == ["low", "low"]


def test_a_tier_is_asked_for_by_its_name_and_one_without_a_model_says_where_to_set_it(
    machine: Machine,
) -> None:
    model = serve(machine, {"text": "I am fast."})
    config = machine.home / "config.toml"
    config.write_text(f'[tiers]\nfast = "{model}"\n')
    ran = machine.run("run", "--model", "fast", "go")
    assert (ran.returncode, ran.stdout) == (0, "I am fast.\n"), ran.stderr
    assert f"model fast: {model}" in ran.stderr
    refused = machine.run("run", "--model", "reasoner", "go")
    assert refused.returncode == 2
    assert "[tiers] reasoner" in refused.stderr


def test_the_router_picks_a_tier_by_what_was_said(machine: Machine) -> None:
    fast, reasoner = serve(machine, {"text": "Fast."}), serve(machine, {"text": "Thought."})
    config = machine.home / "config.toml"
    config.write_text(f'router = true\n[tiers]\nfast = "{fast}"\nreasoner = "{reasoner}"\n')
    assert machine.run("run", "fix the typo").stdout == "Fast.\n"
    ran = machine.run("run", "think hard")
    assert ran.stdout == "Thought.\n"
    assert "it was said: think hard" in ran.stderr


def test_a_plain_model_that_keeps_failing_is_followed_by_a_tier_of_the_same_server(machine: Machine) -> None:
    refusing = [{"text": "I will not.", "stop": "refused"}] * 4
    plain = serve(machine, *refusing)
    strong = plain.replace("#test", "#strong")
    elsewhere = '{ anthropic = "anthropic/claude-x" }'
    (machine.home / "config.toml").write_text(f'[tiers]\ncoder = {elsewhere}\nreasoner = "{strong}"\n')
    ran = machine.run("run", "--model", plain, *FREE, "go")
    assert ran.returncode == 1, ran.stderr
    session = machine.only_session()["id"]
    assert "strong" not in machine.run("resume", session, "again", *FREE).stderr
    third = machine.run("resume", session, "and again", *FREE)
    assert f"model reasoner: {strong} (2 turns in a row failed)" in third.stderr
    assert [seen.json()["model"] for seen in machine.seen] == ["test-1", "test-1", "strong-1"]
    assert "strong" not in machine.run("resume", session, "no", "--model", plain, *FREE).stderr


def test_a_model_that_a_tier_stands_for_is_on_that_tier(machine: Machine) -> None:
    fast = serve(machine, *[{"text": "I will not.", "stop": "refused"}] * 4)
    coder = fast.replace("#test", "#coder")
    config = f'[tiers]\nfast = "{fast}"\ncoder = "{coder}"\nreasoner = "openai/gpt-x"\n'
    (machine.home / "config.toml").write_text(config)
    ran = machine.run("run", "--model", fast, *FREE, "go")
    assert f"model fast: {fast}" in ran.stderr
    session = machine.only_session()["id"]
    machine.run("resume", session, "again", *FREE)
    assert f"model coder: {coder}" in machine.run("resume", session, "and again", *FREE).stderr


def test_what_a_model_was_found_not_to_take_is_not_sent_again_by_a_resumed_or_new_session(
    machine: Machine,
) -> None:
    said = {"error": {"message": "registry/library/gemma:2b does not support tools"}}
    model = serve(
        machine, {"text": "one"}, {"text": "two"}, faults=[{"kind": "status", "status": 400, "body": said}]
    )
    assert machine.run("run", "--model", model, *FREE, "go").returncode == 0
    assert machine.run("resume", machine.only_session()["id"], "more", *FREE).returncode == 0
    assert machine.run("run", "--model", model, *FREE, "go").returncode == 0
    assert ["tools" in seen.json() for seen in machine.seen] == [True, False, False, False]

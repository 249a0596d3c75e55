"""What the model is sent, and how a run ends when it is stuck or its window is full: real process, real HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Machine

FREE = ("--mode", "yolo", "--max-cost-usd", "100", "--allow-unpriced")
SUMMARY = {"text": "The goal is to read every page of the report and count the words; pages 1 to 3 are read."}
GOAL = "Read every page of the report and count the words."


def configure(machine: Machine, **settings: Any) -> None:
    machine.home.mkdir(exist_ok=True)
    lines = [
        f"{name} = {json.dumps(value)}" for name, value in settings.items() if not isinstance(value, dict)
    ]
    for name, table in settings.items():
        if isinstance(table, dict):
            lines += [f"[{name}]", *(f'"{key}" = {json.dumps(value)}' for key, value in table.items())]
    (machine.home / "config.toml").write_text("\n".join(lines) + "\n")


def reading(count: int, size: int = 6000) -> list[dict[str, Any]]:
    """Replies that each print a page of this many characters."""
    return [
        {
            "text": f"Page {n}.",
            "calls": [{"name": "shell", "arguments": {"command": f"printf '{n} %.0s' $(seq {size // 2})"}}],
        }
        for n in range(count)
    ]


def kinds(machine: Machine) -> list[str]:
    return [event["kind"] for event in machine.events(machine.only_session()["id"])]


def ending(machine: Machine) -> dict[str, Any]:
    return [e["body"] for e in machine.events(machine.only_session()["id"]) if e["kind"] == "TurnEnded"][-1]


def test_one_overflow_compacts_once_and_the_run_goes_on(machine: Machine) -> None:
    summary = machine.serve(SUMMARY)
    replies = reading(9, size=2000)
    replies[7]["fault"] = {"kind": "overflow"}
    model = machine.serve(*replies, {"text": "All read."})
    configure(machine, compaction_model=summary)
    ran = machine.run("run", "--model", model, *FREE, "--max-steps", "12", GOAL)
    assert ran.returncode in (0, 5), ran.stderr
    assert kinds(machine).count("Compacted") == 1
    writer, worker = machine.servers
    assert len(writer.seen) == 1
    after = worker.seen[8].json()["messages"]
    assert GOAL in after[2]["content"]
    assert SUMMARY["text"] in after[2]["content"]
    assert after[:2] == worker.seen[0].json()["messages"][:2]  # with what is about the workspace


@pytest.mark.parametrize("provider", ["openai", "llama.cpp", "vllm"])
def test_a_model_that_always_overflows_gets_two_requests_and_an_end_with_numbers(
    machine: Machine, provider: str
) -> None:
    model = machine.serve(
        {"text": "never"}, faults=[{"kind": "overflow", "times": 5000, "provider": provider}]
    )
    ran = machine.run("run", "--model", model, *FREE, GOAL + " word" * 3000)
    assert ran.returncode == 1
    assert len(machine.seen) <= 2
    assert "cannot be made short enough" in ending(machine)["detail"]
    assert "tokens" in ending(machine)["detail"]


def test_a_full_window_is_compacted_before_it_overflows_with_one_user_message(machine: Machine) -> None:
    summary = machine.serve(SUMMARY)
    model = machine.serve(*reading(5), {"text": "All read."})
    configure(machine, compaction_model=summary, context_tokens={model: 12_000, "test": 12_000})
    ran = machine.run("run", "--profile", "standard", "--model", model, *FREE, "--max-steps", "9", GOAL)
    assert ran.returncode in (0, 5), ran.stderr
    assert "Compacted" in kinds(machine)
    assert "history compacted" in ran.stderr
    assert all(seen.size < 12_000 * 4 for seen in machine.servers[1].seen)
    shown = machine.run("context", machine.only_session()["id"])
    assert "summary" in shown.stdout
    assert "of 12,000" in shown.stdout


def test_a_doom_loop_is_told_and_then_ends(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "echo same"}}
    model = machine.serve(closing={"calls": [call]})
    ran = machine.run("run", "--model", model, *FREE, "go")
    assert ran.returncode == 1
    assert len(machine.seen) == 5
    told = machine.seen[3].json()["messages"][-1]
    assert told["role"] == "user"
    assert "the same call of shell 3 times" in told["content"]
    assert kinds(machine).count("GuardTripped") == 2
    assert "loop:" in ran.stderr


def test_polling_with_changing_results_goes_on(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "echo x >> log; wc -l < log"}}
    model = machine.serve(*[{"calls": [call]}] * 8, {"text": "Finished."})
    ran = machine.run("run", "--model", model, *FREE, "poll")
    assert ran.returncode == 0, ran.stderr
    assert "GuardTripped" not in kinds(machine)


def test_a_promise_without_a_call_is_asked_about(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "echo hi"}}
    model = machine.serve({"text": "I will now run the tests."}, {"calls": [call]}, {"text": "They pass."})
    assert machine.run("run", "--model", model, *FREE, "go").returncode == 0
    assert "called no tool" in machine.seen[1].json()["messages"][-1]["content"]


def test_an_unfinished_plan_is_mentioned_twice_at_most(machine: Machine) -> None:
    items = [{"text": "write it", "progress": "done"}, {"text": "test it", "progress": "open"}]
    plan = {"calls": [{"name": "plan", "arguments": {"items": items}}]}
    model = machine.serve(plan, *[{"text": f"That is it ({n})."} for n in range(5)])
    assert machine.run("run", "--model", model, *FREE, "go").returncode == 0
    assert len(machine.seen) == 4
    assert "test it" in machine.seen[2].json()["messages"][-1]["content"]


def test_instructions_skills_facts_and_memory_are_in_the_prompt_once(machine: Machine) -> None:
    configure(machine)
    (machine.home / "AGENTS.md").write_text("Speak plainly.")
    (machine.workspace / ".git").mkdir()
    (machine.workspace / "AGENTS.md").write_text("Use tabs.")
    (machine.workspace / "go.mod").write_text("module x")
    skill = machine.workspace / "skills" / "plots"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: plots\ndescription: Draws plots.\n---\nSecret body.\n")
    assert machine.run("memory", "add", "the disk is slow").returncode == 0
    read = {"calls": [{"name": "read", "arguments": {"path": "AGENTS.md"}}]}
    model = machine.serve(read, {"text": "Done."}, {"text": "Again."})
    machine.run("run", "--model", model, *FREE, "go")
    about = machine.seen[0].json()["messages"][1]["content"]
    for needed in ("Speak plainly.", "Use tabs.", "go test ./...", "plots: Draws plots.", "the disk is slow"):
        assert about.count(needed) == 1
    assert "Secret body" not in about
    (machine.workspace / "AGENTS.md").write_text("Use spaces.")
    machine.run("resume", machine.only_session()["id"], "more", *FREE)
    assert machine.seen[2].json()["messages"][1]["content"] == about


def test_nested_instructions_are_shown_once_when_a_file_under_them_is_touched(machine: Machine) -> None:
    nested = machine.workspace / "parser"
    nested.mkdir()
    (nested / "AGENTS.md").write_text("Never use regular expressions here.")
    (nested / "a.txt").write_text("a")
    read = {"calls": [{"name": "read", "arguments": {"path": "parser/a.txt"}}]}
    other = {"calls": [{"name": "read", "arguments": {"path": "parser/a.txt", "limit": 1}}]}
    model = machine.serve(read, other, {"text": "Done."})
    machine.run("run", "--model", model, *FREE, "go")
    assert "Never use regular" not in json.dumps(machine.seen[0].json())
    assert "Never use regular expressions here." in machine.seen[1].json()["messages"][-1]["content"]
    assert json.dumps(machine.seen[2].json()).count("Never use regular") == 1
    listed = json.loads(machine.run("context", "--json", machine.only_session()["id"]).stdout)["parts"]
    assert str(nested / "AGENTS.md") in [part["source"] for part in listed if part["part"] == "notes"]


def test_what_the_agent_notes_is_remembered_in_the_next_session(machine: Machine) -> None:
    note = {"calls": [{"name": "note", "arguments": {"text": "the tests need a database"}}]}
    model = machine.serve(note, {"text": "Noted."})
    machine.run("run", "--model", model, *FREE, "go")
    shown = machine.run("memory")
    assert "the tests need a database  (agent, session" in shown.stdout
    model = machine.serve({"text": "Done."})
    machine.run("run", "--model", model, *FREE, "again")
    assert "the tests need a database" in machine.seen[0].json()["messages"][1]["content"]
    assert machine.run("memory", "forget", "1").returncode == 0
    assert machine.run("memory", "forget", "1").returncode == 2
    assert not (machine.workspace / "memory").exists()


def test_compact_by_command_and_back(machine: Machine) -> None:
    summary = machine.serve(SUMMARY)
    model = machine.serve(*reading(4), {"text": "All read."}, {"text": "Yes."})
    configure(machine, compaction_model=summary)
    assert machine.run("run", "--model", model, *FREE, GOAL).returncode == 0
    session = machine.only_session()["id"]
    before = json.loads(machine.run("context", "--json", session).stdout)
    whole = machine.run("compact", "--undo", session)
    assert (whole.returncode, "no compaction to undo" in whole.stderr) == (2, True)
    compacted = machine.run("compact", session)
    assert compacted.returncode == 0, compacted.stderr
    assert "history compacted" in compacted.stdout
    after = json.loads(machine.run("context", "--json", session).stdout)
    assert after["tokens"] < before["tokens"]
    assert machine.run("compact", "--undo", session).returncode == 0
    assert json.loads(machine.run("context", "--json", session).stdout)["tokens"] == before["tokens"]


def test_a_file_larger_than_the_window_is_read_in_part_and_the_run_goes_on(machine: Machine) -> None:
    (machine.workspace / "big.txt").write_text("line of text\n" * 20_000)
    read = {"calls": [{"name": "read", "arguments": {"path": "big.txt", "limit": 5000}}]}
    model = machine.serve(read, {"text": "I saw its size."})
    configure(machine, context_tokens={"test": 10_000})
    ran = machine.run("run", "--profile", "standard", "--model", model, *FREE, "look at big.txt")
    assert ran.returncode == 0, ran.stderr
    told = json.dumps(machine.seen[1].json())
    assert "left out to save room" in told
    assert machine.seen[1].size < 40_000


@pytest.mark.parametrize(
    "command", ["cd parser && cat deep/a.txt", "cat parser/deep/a.txt", "ls parser/deep"]
)
def test_nested_instructions_are_shown_once_when_a_command_goes_there_or_names_what_lies_there(
    machine: Machine, command: str
) -> None:
    deep = machine.workspace / "parser" / "deep"
    deep.mkdir(parents=True)
    (deep.parent / "AGENTS.md").write_text("Never use regular expressions here.")
    (deep / "AGENTS.md").write_text("Recursion is fine.")
    (deep / "a.txt").write_text("a")
    shell = {"calls": [{"name": "shell", "arguments": {"command": command}}]}
    model = machine.serve(shell, shell, {"text": "Done."})
    machine.run("run", "--model", model, *FREE, "go")
    for text in ("Never use regular expressions here.", "Recursion is fine."):
        counts = [json.dumps(seen.json()).count(text) for seen in machine.seen]
        assert counts == [0, 1, 1]


def test_a_skill_that_cannot_be_used_is_named_with_its_reason(machine: Machine) -> None:
    skill = machine.workspace / "skills" / "plots"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: charts\ndescription: Draws plots.\n---\n")
    model = machine.serve({"text": "Done."})
    machine.run("run", "--model", model, *FREE, "go")
    shown = machine.run("context", machine.only_session()["id"])
    problem = "its folder is named plots, not charts"
    assert f"skill ignored: {skill / 'SKILL.md'}: {problem}" in shown.stdout
    (broken,) = json.loads(machine.run("context", "--json", machine.only_session()["id"]).stdout)[
        "broken_skills"
    ]
    assert broken == {"path": str(skill / "SKILL.md"), "problem": problem}
    checked = machine.run("doctor")
    assert f"{skill / 'SKILL.md'} is not used: {problem}" in checked.stdout


def test_how_long_nothing_may_change_is_a_setting(machine: Machine) -> None:
    configure(machine, idle_steps=4)
    idle = [
        {"calls": [{"name": "shell", "arguments": {"command": f"echo x # {number}"}}]} for number in range(9)
    ]
    model = machine.serve(*idle, {"text": "Done."})
    ran = machine.run("run", "--model", model, *FREE, "go")
    assert ran.returncode == 3
    assert "Nothing has changed in 4 steps" in ending(machine)["detail"]


def test_the_context_of_an_outside_agent_is_what_is_on_record(machine: Machine) -> None:
    machine.run("run", "--engine", "exec:cat", *FREE, "Say hello to everybody.")
    shown = machine.run("context", machine.only_session()["id"])
    assert shown.returncode == 0, shown.stderr
    assert "exec:cat keeps a history of its own" in shown.stdout

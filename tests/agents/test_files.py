"""Agents as Markdown files: what a head means, which file counts, and what must be approved."""

from __future__ import annotations

import pytest

from mainspring.agents.files import CHILD_TOOLS, Agent, find_agents, read_agent
from mainspring.app.operations.agents import agent_refusal, list_agents
from mainspring.app.operations.trust import agent_subject, approve, brought_by
from mainspring.events import CallEnded, ChildStarted, PromptSet
from mainspring.models.scripted import ScriptedReply
from mainspring.workspace.skills import Broken
from tests.agents.family import PARENT, Family, asks, script_of, settings


def written(folder, head: str, text: str = "Do it.", name: str = "x.md"):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"---\n{head}\n---\n{text}\n")
    return path


def test_a_head_says_what_an_agent_may_use(tmp_path):
    head = (
        "name: helper\ndescription: Helps\ntools: Read, Grep, Bash, Task\nmodel: inherit\neffort: low\n"
        "max-turns: 7\nskills: alpha, beta"
    )
    agent = read_agent(written(tmp_path, head))
    assert isinstance(agent, Agent)
    assert (agent.name, agent.tools, agent.unknown_tools) == ("helper", ("read", "grep", "shell"), ("Task",))
    assert (agent.model, agent.effort, agent.max_turns, agent.skills) == ("", "low", 7, ("alpha", "beta"))
    assert agent.isolation == "worktree"
    listed = read_agent(written(tmp_path, "description: d\ntools:\n  - read\n  - find", name="y.md"))
    assert isinstance(listed, Agent)
    assert (listed.name, listed.tools, listed.isolation) == ("y", ("read", "find"), "read-only")
    every = read_agent(written(tmp_path, "description: d", name="z.md"))
    assert isinstance(every, Agent)
    assert every.tools == CHILD_TOOLS


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("name: a b\ndescription: d", "t"),
        ("name: a", "t"),
        ("description: d\neffort: huge", "t"),
        ("description: d\nisolation: moon", "t"),
        ("description: d\nmax-turns: many", "t"),
        ("description: d", ""),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, head, text):
    found = read_agent(written(tmp_path, head, text))
    assert isinstance(found, Broken)
    assert found.problem


def test_ours_are_there_and_a_file_of_the_users_takes_their_place(tmp_path):
    config = settings(tmp_path / "home")
    ours, broken = list_agents(config, tmp_path)
    assert {"explore", "research", "plan", "verify", "review"} <= set(ours)
    assert not broken
    isolated = {name: agent.isolation for name, agent in ours.items()}
    assert isolated["verify"] == "scratch"
    assert isolated["explore"] == isolated["plan"] == isolated["review"] == "read-only"
    written(config.folder / "agents", "name: review\ndescription: mine\ntools: read")
    assert list_agents(config, tmp_path)[0]["review"].description == "mine"
    written(tmp_path / "in", "name: one\ndescription: first", name="a.md")
    written(tmp_path / "in", "name: one\ndescription: second", name="b.md")
    agents, twice = find_agents([(tmp_path / "in", True)], tmp_path)
    assert agents["one"].description == "first"
    assert len(twice) == 1


def test_a_projects_agent_that_does_more_than_read_is_refused_until_it_is_approved(tmp_path):
    script = script_of(
        (asks("TASK", agent="writer"), ScriptedReply(text="ok")), TASK=(ScriptedReply(text="did"),)
    )
    stage = Family(tmp_path, script)
    path = written(stage.workspace / ".claude" / "agents", "name: writer\ndescription: Writes")
    written(stage.workspace / ".claude" / "agents", "name: reader\ndescription: d\ntools: Read", name="r.md")
    config = settings(tmp_path / "home")
    stage.run(PARENT)
    assert not stage.events(ChildStarted)
    assert "mainspring trust add writer" in stage.events(CallEnded)[0].output
    agents, _ = list_agents(config, stage.workspace)
    assert agent_refusal(config, agents["reader"]) == ""
    entries = [entry for entry in brought_by(config, stage.workspace) if entry.subject.kind == "agent"]
    assert [(entry.subject.name, entry.state) for entry in entries] == [("writer", "new")]
    subject = agent_subject(agents["writer"])
    assert subject
    approve(config, subject)
    assert agent_refusal(config, agents["writer"]) == ""
    stage.session = ""
    stage.run(PARENT)
    assert [each.agent for each in stage.events(ChildStarted)] == ["writer"]
    path.write_text(path.read_text() + "And more.\n")
    assert "changed" in agent_refusal(config, list_agents(config, stage.workspace)[0]["writer"])


def test_the_agent_that_works_where_none_is_named_is_ours(tmp_path):
    parent = (asks("TASK"), asks("TASK", agent="general"), ScriptedReply(text="ok"))
    stage = Family(tmp_path, script_of(parent, TASK=(ScriptedReply(text="did"),)))
    written(
        stage.workspace / ".claude" / "agents", "name: general\ndescription: d\nisolation: scratch", "EVIL"
    )
    agents, broken = list_agents(settings(tmp_path / "home"), stage.workspace)
    assert "general" not in agents
    assert len(broken) == 1
    stage.run(PARENT)
    assert [each.isolation for each in stage.events(ChildStarted)] == ["worktree", "worktree"]
    for started in stage.events(ChildStarted):
        prompts = [item.event for item in stage.of(started.child) if isinstance(item.event, PromptSet)]
        assert prompts
        assert all("EVIL" not in prompt.system for prompt in prompts)

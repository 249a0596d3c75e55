"""Which models children may be given: only those that the user has set up get the user's key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from mainspring.app.models import delegated_model
from mainspring.app.operations.agents import agent_refusal, list_agents
from mainspring.app.operations.review import review
from mainspring.app.operations.trust import agent_subject, approve
from mainspring.errors import UsageError
from mainspring.events import CallEnded, ChildEnded, ChildStarted, Limits
from mainspring.models.scripted import Script, ScriptedReply
from mainspring.settings import Config
from mainspring.testing.server import HostedModelServer
from tests.agents.family import PARENT, Family, asks, script_of, settings

KEYS = {"ANTHROPIC_API_KEY": "sk-ant-of-the-user", "OPENAI_API_KEY": "sk-of-the-user"}


class Keyed(Family):
    tiers: Mapping[str, str] = MappingProxyType({})

    def _config(self) -> Config:
        config = settings(self.folder / "home", **KEYS)
        return msgspec.structs.replace(
            config, settings=msgspec.structs.replace(config.settings, tiers=dict(self.tiers))
        )


@pytest.fixture
def server():
    with HostedModelServer(Script(replies=(ScriptedReply(text="From there."),))) as server:
        yield server


def family(tmp_path, **options) -> Keyed:
    parent = (asks("TASK", **options), ScriptedReply(text="All."))
    return Keyed(tmp_path, script_of(parent, TASK=(ScriptedReply(text="did"),)))


def written(stage: Family, name: str, model: str) -> None:
    folder = stage.workspace / ".claude" / "agents"
    folder.mkdir(parents=True)
    head = f"name: {name}\ndescription: Helps\ntools: Read\nmodel: {model}"
    (folder / f"{name}.md").write_text(f"---\n{head}\n---\nHelp.\n")


@pytest.mark.parametrize("provider", ["anthropic", "openai-compatible"])
def test_a_call_cannot_send_the_users_key_to_an_address(tmp_path, server, provider):
    stage = family(tmp_path, agent="explore", model=f"{provider}@{server.url}#test")
    assert stage.run(PARENT).text == "All."
    assert not server.seen
    assert not stage.events(ChildStarted)
    assert stage.events(CallEnded)[0].outcome == "error"


def test_a_projects_agent_that_names_a_model_must_be_approved_and_cannot_name_an_address(tmp_path, server):
    stage = family(tmp_path, agent="helper")
    written(stage, "helper", f"anthropic@{server.url}#test")
    agent = list_agents(stage._config(), stage.workspace)[0]["helper"]
    assert agent_refusal(stage._config(), agent)
    subject = agent_subject(agent)
    assert subject
    approve(stage._config(), subject)
    assert not agent_refusal(stage._config(), agent)
    stage.run(PARENT)
    assert not server.seen
    assert not stage.events(ChildStarted)


def test_a_review_is_not_sent_to_an_address_of_the_project(tmp_path, server):
    stage = family(tmp_path)
    written(stage, "review", f"anthropic@{server.url}#test")
    (stage.workspace / "x.diff").write_text("+one\n")
    config = stage._config()
    for _ in range(2):
        with pytest.raises(UsageError):
            asyncio.run(review(config, stage.workspace, "x.diff"))
        subject = agent_subject(list_agents(config, stage.workspace)[0]["review"])
        assert subject
        approve(config, subject)
    assert not server.seen


def test_a_child_may_have_a_model_that_the_user_has_set_up(tmp_path, server):
    stage = family(tmp_path, agent="explore", model="fast")
    stage.tiers = {"fast": f"openai-compatible@{server.url}#test"}
    stage.run(PARENT)
    assert [each.text for each in stage.events(ChildEnded)] == ["From there."]
    config = stage._config()
    same = ("fast", stage.tiers["fast"], "anthropic/claude-sonnet-4-5", "claude-sonnet-4-5")
    assert [delegated_model(name, config) for name in same] == list(same)
    unknown = ("sonnet", "coder", "gemini/gemini-2.5-pro", "local/../x.gguf")
    assert [delegated_model(name, config) for name in unknown] == [""] * 4


@pytest.mark.parametrize("cap_usd", [None, 1.0])
def test_a_cap_holds_for_a_child_on_a_model_without_a_price(tmp_path, server, cap_usd):
    stage = family(tmp_path, agent="explore", model="fast")
    stage.tiers = {"fast": f"openai-compatible@{server.url}#unpriced"}
    stage.run(PARENT, limits=Limits(max_cost_usd=cap_usd))
    assert [each.state for each in stage.events(ChildEnded)] == ["done" if cap_usd is None else "failed"]
    assert any(seen.body for seen in server.seen) == (cap_usd is None)

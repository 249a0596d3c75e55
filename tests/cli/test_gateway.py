"""A gateway for all model calls: every request goes there, with its key, and none elsewhere."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click
import pytest

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.cli.commands import mainspring
from mainspring.events import (
    AssistantSaid,
    ModelChosen,
    PromptSet,
    SessionStarted,
    Text,
    TurnStarted,
    UserSaid,
)
from mainspring.testing.server import SeenRequest
from tests.cli.conftest import Machine, lines

KEYS = {"GATEWAY_KEY": "gw-key", "OPENAI_API_KEY": "own-1", "ANTHROPIC_API_KEY": "own-2"}


def with_gateway(machine: Machine, *replies: dict[str, Any], more: str = "", path: str = "") -> None:
    """Serves these replies as a gateway. Any other server in the settings does not answer."""
    machine.serve(*replies)
    url = machine.servers[-1].url.removesuffix("/v1") + (path or "/v1")
    machine.home.mkdir(mode=0o700, exist_ok=True)
    (machine.home / "config.toml").write_text(
        f'{more}\n[gateway]\nurl = "{url}"\nkey_variable = "GATEWAY_KEY"\n'
    )


def key_of(seen: SeenRequest) -> str:
    headers = {name.lower(): value for name, value in seen.headers.items()}
    return (
        headers.get("x-api-key")
        or headers.get("x-goog-api-key")
        or headers["authorization"].removeprefix("Bearer ")
    )


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("openai/gpt-5", "/v1/responses"),
        ("anthropic/claude-sonnet-4-5", "/v1/messages"),
        ("deepseek/deepseek-chat", "/v1/chat/completions"),
        ("gemini/gemini-2.5-pro", "/v1/models/gemini-2.5-pro:streamGenerateContent"),
    ],
)
def test_every_protocol_is_spoken_at_the_gateway_with_its_key(
    machine: Machine, model: str, path: str
) -> None:
    with_gateway(machine, {"text": "hello"})
    ran = machine.run("run", "hi", "--model", model, GATEWAY_KEY="gw-key")
    assert ran.returncode == 0, ran.stderr
    assert "hello" in ran.stdout
    assert [(seen.path.partition("?")[0], key_of(seen)) for seen in machine.seen] == [(path, "gw-key")]


def test_fallbacks_summaries_and_typed_answers_go_through_it(machine: Machine) -> None:
    refused = {"kind": "status", "status": 402, "body": {"error": {"message": "no"}}}
    steps = [
        {
            "text": f"Step {n}. " + "because " * 300,
            "calls": [{"name": "note", "arguments": {"text": f"fact {n}"}}],
        }
        for n in range(10)
    ]
    answer = {"text": '{"city": "Bern"}', "fault": refused}
    with_gateway(machine, answer, *steps, {"text": "done"}, more='compaction_model = "xai/grok-4"')
    schema = machine.workspace / "schema.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"city": {"type": "string"}}}))
    models = ("--model", "openai/gpt-5", "--fallback", "groq/some-model")
    ran = machine.run("run", "which?", *models, "--output-schema", str(schema), **KEYS)
    assert ran.returncode == 0, ran.stderr
    assert {key_of(seen) for seen in machine.seen} == {"gw-key"}
    paths = [seen.path for seen in machine.seen]
    assert paths[:2] == ["/v1/responses", "/v1/chat/completions"]
    assert [seen.json()["model"] for seen in machine.seen][:2] == ["gpt-5", "some-model"]
    session = machine.only_session()["id"]
    assert machine.run("resume", session, "go on", **KEYS).returncode == 0
    compacted = machine.run("compact", session, **KEYS)
    assert compacted.returncode == 0, compacted.stderr
    assert {key_of(seen) for seen in machine.seen} == {"gw-key"}
    assert "grok-4" in [seen.json()["model"] for seen in machine.seen]


def test_the_address_may_name_the_provider_and_providers_may_be_left_out(machine: Machine) -> None:
    with_gateway(machine, {"text": "hello"}, path="/of/{provider}/v1")
    ran = machine.run("run", "hi", "--model", "anthropic/claude-sonnet-4-5", **KEYS)
    told = machine.run("doctor", **KEYS).stdout
    assert "gateway: http://127.0.0.1" in told
    listed = {row["provider"]: row for row in lines(machine.run("models", "--json", **KEYS).stdout)}
    assert listed["anthropic"]["is_through_gateway"]
    assert listed["anthropic"]["base_url"].endswith("/of/anthropic")
    assert not listed["ollama"]["is_through_gateway"]
    assert [seen.path for seen in machine.seen] == ["/of/anthropic/v1/messages"], ran.stderr


@pytest.mark.parametrize("is_option", [True, False])
def test_without_the_gateway_nothing_goes_there(machine: Machine, is_option: bool) -> None:
    with_gateway(machine, {"text": "hello"}, more="[retry]\nmax_requests = 1")
    given = {**KEYS, "HTTPS_PROXY": "http://127.0.0.1:9"}  # which leads nowhere
    options = ("--no-gateway",) if is_option else ()
    leave = {} if is_option else {"MAINSPRING_GATEWAY": "0"}
    ran = machine.run("run", "hi", "--model", "anthropic/claude-x", *options, **given, **leave)
    assert machine.seen == []
    assert "https://api.anthropic.com through the proxy 127.0.0.1" in ran.stderr


def test_a_gateway_without_its_key_is_said(machine: Machine) -> None:
    with_gateway(machine, {"text": "hello"})
    ran = machine.run("run", "hi", "--model", "openai/gpt-5")
    assert (ran.returncode, machine.seen) == (2, [])
    assert "GATEWAY_KEY" in ran.stderr


def test_a_provider_behind_a_gateway_on_this_machine_says_no_calls_in_its_text(machine: Machine) -> None:
    said = '{"name": "shell", "arguments": {"command": "echo ran >ran.txt"}}'
    with_gateway(machine, {"text": said})
    ran = machine.run("run", "what would you run?", "--model", "deepseek/deepseek-chat", **KEYS)
    assert (ran.returncode, ran.stdout) == (0, f"{said}\n"), ran.stderr
    assert not (machine.workspace / "ran.txt").exists()


NO_MODEL = """
    chat run resume retry approve fix farm tasks review acp exploop drvloop replay compact land serve worker
    goal start|goal resume|goal schedule|docs forge|models list|mcp serve|daemon run|daemon start
"""


def test_every_command_that_asks_a_model_can_leave_the_gateway_out() -> None:
    context = click.Context(mainspring)
    names = [name for line in NO_MODEL.strip().splitlines() for name in line.strip().split("|")]
    words = [name.split() for name in names[1:]] + [[name] for name in names[0].split()]
    for path in words:
        command = mainspring.get_command(context, path[0])
        for name in path[1:]:
            assert isinstance(command, click.Group)
            command = command.get_command(context, name)
        assert command is not None
        assert "--no-gateway" in [option for each in command.params for option in each.opts], path


@pytest.mark.parametrize(
    "command",
    [
        ("compact", "one", "--model", "openai/gpt-5"),
        ("review", "change.diff", "--model", "openai/gpt-5"),
        ("models", "list", "openai", "--refresh"),
        ("daemon", "run", "--once", "--sessions"),
    ],
)
def test_a_command_asks_the_gateway_unless_it_is_left_out(machine: Machine, command: tuple[str, ...]) -> None:
    with_gateway(machine, *[{"text": "hello"}] * 4, more="[retry]\nmax_requests = 1")
    given = {**KEYS, "HTTPS_PROXY": "http://127.0.0.1:9"}  # which leads nowhere
    interrupted(machine)
    (machine.workspace / "change.diff").write_text("--- a/a.py\n+++ b/a.py\n@@ -0,0 +1 @@\n+x = 1\n")
    asked = machine.servers[-1]
    machine.run(*command, "--no-gateway", **given)
    assert (asked.seen, asked.looks) == ([], [])
    machine.run("sessions", "delete", "one", "--yes", "--waiting")
    interrupted(machine)
    told = machine.run(*command, **given)
    assert asked.seen or asked.looks, told.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("goal", "start", "reach it", "--background"),
        ("goal", "schedule", "@daily", "reach it", "--yes"),
        ("run", "hi", "--queue", "q"),
        ("chat", "hi", "--keep-going"),
    ],
)
def test_what_another_process_does_refuses_the_option(machine: Machine, command: tuple[str, ...]) -> None:
    with_gateway(machine)
    refused = machine.run(*command, "--no-gateway")
    assert refused.returncode == 2
    assert "--no-gateway counts for this process" in refused.stderr
    assert machine.run("sessions", "--json").stdout == ""


def interrupted(machine: Machine) -> None:
    """A session with some history whose process died in the middle of a turn."""
    said = [UserSaid(text="go " * 2000), AssistantSaid(step=1, parts=(Text(text="yes " * 2000),))] * 40

    async def making() -> None:
        journal = await SqliteSessions(machine.home).create("one")
        await journal.append(
            SessionStarted(session="one", workspace=str(machine.workspace), version="1"),
            PromptSet(system="x"),
            ModelChosen(model="openai/gpt-5"),
            *said,
            UserSaid(text="go"),
            TurnStarted(turn=1),
        )
        await journal.close()

    asyncio.run(making())

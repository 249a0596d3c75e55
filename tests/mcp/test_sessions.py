"""Tools of servers in sessions: real servers, the real loop, a scripted model."""

from __future__ import annotations

import asyncio
import json

import pytest

from mainspring.app.mcp import servers_in
from mainspring.app.operations.mcp_servers import ask_offers
from mainspring.events import CallStarted
from mainspring.testing import tool_call
from tests.mcp.conftest import PEER, Desk, call, peer


def test_a_server_that_is_not_known_yet_is_found_called_and_known_from_then_on(desk: Desk) -> None:
    desk.servers = {"peer": peer("sdk")}

    async def scene() -> None:
        await desk.ask(tool_call("find_tools", query="add numbers"), call("mcp__peer__add", a=2, b=3), "done")
        assert desk.tool_names()[-2:] == ["find_tools", "call_tool"]
        found, added = await desk.ended()
        assert (added.outcome, added.output) == ("ok", "sum 5")
        started = [event.tool for event in await desk.events() if isinstance(event, CallStarted)]
        assert started == ["find_tools", "mcp__peer__add"], "the call is recorded by its own name"
        assert found.outcome == "ok"

        await desk.ask(tool_call("mcp__peer__add", a=1, b=1), "done")
        names = desk.tool_names(-1)
        assert "find_tools" not in names
        shown = [name for name in names if name.startswith("mcp__")]
        assert shown == sorted(shown) == names[-len(shown) :], "tools of servers come last, by name"
        assert (await desk.ended())[-1].output == "sum 2"

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["sdk", "handshake", "noisy"])
def test_both_versions_of_the_protocol_are_spoken(desk: Desk, kind: str) -> None:
    desk.servers = {"peer": peer(kind)}
    (server,) = servers_in(desk.workspace, desk.config).servers
    offers = asyncio.run(ask_offers(desk.config, desk.workspace, server))
    assert offers.protocol == ("2026-07-28" if kind == "sdk" else "2025-11-25")
    assert offers.tools


def test_a_server_gets_the_variables_that_it_was_given_and_no_secret_of_ours(desk: Desk) -> None:
    desk.servers = {"peer": peer("sdk", env={"GIVEN": "to it"})}
    config = desk.config
    environment = {**config.environment, "OPENAI_API_KEY": "sk-not-for-servers-0123456789"}
    import msgspec

    config = msgspec.structs.replace(config, environment=environment)
    asyncio.run(desk.ask(call("mcp__peer__environment"), "done", config=config))
    (ended,) = asyncio.run(desk.ended())
    seen = json.loads(ended.output)
    assert seen["GIVEN"] == "to it"
    assert "OPENAI_API_KEY" not in seen
    assert "MAINSPRING_HOME" not in seen


def test_what_a_server_is_given_is_hidden_when_it_tells(desk: Desk) -> None:
    desk.servers = {"peer": peer("sdk", env={"TRACKER": "tr4cker-s3cret-value-77"})}
    asyncio.run(desk.ask(call("mcp__peer__environment"), "done"))
    (ended,) = asyncio.run(desk.ended())
    assert "tr4cker-s3cret-value-77" not in ended.output
    assert json.loads(ended.output)["TRACKER"].startswith("__secret_")


def test_a_server_cannot_write_outside_the_workspace_nor_into_protected_files(desk: Desk) -> None:
    desk.servers = {"peer": peer("sdk")}
    inside, outside, protected = (
        desk.workspace / "a",
        PEER.with_name("written.txt"),
        desk.workspace / ".mcp.json",
    )
    calls = [call("mcp__peer__write", path=str(path), text="x") for path in (inside, outside, protected)]
    asyncio.run(desk.ask(*calls, "done"))
    first, second, third = asyncio.run(desk.ended())
    assert first.outcome == "ok"
    assert inside.read_text() == "x"
    assert (second.outcome, outside.exists()) == ("error", False)
    assert third.call
    assert not protected.exists(), "what is protected and was made anyway is set aside when the server ends"


def test_a_long_answer_is_bounded_and_kept_whole(desk: Desk) -> None:
    desk.servers = {"peer": peer("sdk")}
    asyncio.run(desk.ask(call("mcp__peer__large", megabytes=50), "done"))
    (ended,) = asyncio.run(desk.ended())
    assert ended.outcome == "ok"
    assert len(ended.output) < 100_000
    assert ended.full is not None
    assert ended.full.size == 50 << 20


def test_images_are_attached(desk: Desk) -> None:
    desk.servers = {"peer": peer("sdk")}
    asyncio.run(desk.ask(call("mcp__peer__picture"), "done"))
    (ended,) = asyncio.run(desk.ended())
    assert [media.blob.media_type for media in ended.media] == ["image/png"]


def test_a_tool_that_fails_and_a_server_that_dies_are_answers_and_the_next_call_starts_it_again(
    desk: Desk,
) -> None:
    desk.servers = {"peer": peer("sdk")}
    calls = [call("mcp__peer__fail"), call("mcp__peer__die"), call("mcp__peer__add", a=1, b=2)]
    asyncio.run(desk.ask(*calls, "done"))
    failed, died, added = asyncio.run(desk.ended())
    assert failed.outcome == "error"
    assert "fail" in failed.output
    assert died.outcome == "error"
    assert "peer" in died.output
    assert (added.outcome, added.output) == ("ok", "sum 3")


def test_dead_silent_and_garbage_servers_hold_nobody_up(desk: Desk) -> None:
    desk.servers = {
        "dead": peer("dead", start_timeout_s=5),
        "silent": peer("silent", start_timeout_s=2),
        "garbage": peer("garbage", start_timeout_s=2),
        "absent": peer("dead", command="/no/such/program"),
    }
    answers = [call(f"mcp__{name}__x") for name in desk.servers]
    asyncio.run(desk.ask("done"))
    assert desk.tool_names()[-2:] == ["find_tools", "call_tool"]
    assert len(desk.requests) == 1
    asyncio.run(desk.ask(*answers, "done"))
    assert all(ended.outcome == "error" for ended in asyncio.run(desk.ended()))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("dead", "no database here"),
        ("silent", "waiting for the moon"),
        ("garbage", "this is not the protocol"),
        ("future", "2099-01-01"),
    ],
)
def test_why_a_server_failed_is_told(desk: Desk, kind: str, told: str) -> None:
    from mainspring.errors import UsageError

    desk.servers = {"peer": peer(kind, start_timeout_s=4)}
    (server,) = servers_in(desk.workspace, desk.config).servers
    with pytest.raises(UsageError) as error:
        asyncio.run(ask_offers(desk.config, desk.workspace, server))
    assert told in error.value.message


def test_schemas_with_recursive_references_are_made_plain(desk: Desk) -> None:
    desk.servers = {"peer": peer("recursive")}
    asyncio.run(
        desk.ask(tool_call("find_tools", query="echo"), call("mcp__peer__echo", text="a", tree={}), "done")
    )
    asyncio.run(desk.ask(tool_call("mcp__peer__echo", tree={}), "done"))
    (shown,) = [tool for tool in desk.requests[-1].tools if tool.name == "mcp__peer__echo"]
    assert "$ref" not in json.dumps(shown.parameters)
    assert shown.parameters["required"] == ["text"]
    missing = asyncio.run(desk.ended())[-1]
    assert missing.outcome == "error"
    assert "text missing" in missing.output


def test_250_tools_cost_no_more_than_1500_tokens(desk: Desk) -> None:
    desk.servers = {"many": peer("many")}
    (server,) = servers_in(desk.workspace, desk.config).servers
    asyncio.run(ask_offers(desk.config, desk.workspace, server))
    asyncio.run(desk.ask(tool_call("find_tools", query="collection number 77"), "done"))
    tools = desk.requests[0].tools
    names = desk.tool_names()
    assert not [name for name in names if name.startswith("mcp__")]
    import msgspec

    added = msgspec.json.encode([tool for tool in tools if tool.name in ("find_tools", "call_tool")])
    assert len(added) / 3 <= 1500, "at three bytes a token, which is more than any tokenizer takes"
    (found,) = asyncio.run(desk.ended())
    assert "search_the_collection_number_77" in found.output
    assert desk.requests[0].tools == desk.requests[1].tools, "requests go on beginning with the same bytes"


def test_tools_of_servers_are_asked_for_in_auto_unless_they_are_contained(desk: Desk) -> None:
    async def nobody(_: object) -> None:
        return None

    desk.servers = {"peer": peer("handshake", network=True)}
    reply = asyncio.run(desk.ask(call("mcp__peer__echo"), "done", mode="auto", approver=nobody))
    assert reply.ending == "blocked"
    desk.servers = {"peer": peer("handshake", network=False)}
    desk.session = ""
    reply = asyncio.run(desk.ask(call("mcp__peer__echo"), "done", mode="auto", approver=nobody))
    assert reply.ending == "done"
    assert asyncio.run(desk.ended())[-1].outcome == "ok"


def test_a_projects_server_is_not_started_before_it_is_approved(desk: Desk) -> None:
    from mainspring.app.operations.trust import approve

    entry = {"command": peer("handshake").command, "args": list(peer("handshake").args)}
    (desk.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
    asyncio.run(desk.ask("done"))
    assert not [name for name in desk.tool_names() if "find_tools" in name or "mcp__" in name]
    (server,) = servers_in(desk.workspace, desk.config).servers
    assert server.subject is not None
    approve(desk.config, server.subject)
    asyncio.run(desk.ask(call("mcp__theirs__echo"), "done"))
    assert asyncio.run(desk.ended())[-1].outcome == "ok"


def test_a_broken_file_of_a_project_is_a_warning_of_the_session(desk: Desk) -> None:
    (desk.workspace / ".mcp.json").write_text("{\n nonsense")
    reply = asyncio.run(desk.ask("done"))
    assert reply.ending == "done"
    warned = [event for event in asyncio.run(desk.events()) if "line 2" in str(event)]
    assert warned


def test_a_call_that_is_too_slow_is_ended_and_progress_gives_it_more_time(desk: Desk) -> None:
    desk.servers = {"peer": peer("sdk", timeout_s=2)}
    file = desk.workspace / "told"
    asyncio.run(desk.ask(call("mcp__peer__slow", steps=3), call("mcp__peer__hang", file=str(file)), "done"))
    slow, hung = asyncio.run(desk.ended())
    assert slow.output == "slowly done"
    assert hung.outcome == "error"
    assert "2 s" in hung.output
    assert file.read_text() in ("began", "cancelled")

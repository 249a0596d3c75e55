"""Prompts and resources of real servers, as a person enters them."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.app.mcp import servers_in
from mainspring.app.operations.mcp_offers import list_prompts, with_resources
from mainspring.app.operations.mcp_servers import ask_offers
from mainspring.app.operations.user_commands import prepare_line
from mainspring.errors import UsageError
from tests.mcp.conftest import Desk, peer


@pytest.fixture
def known(desk: Desk) -> Desk:
    """A desk whose server was asked before, so that its prompts are known."""
    desk.servers = {"peer": peer("sdk")}
    (server,) = servers_in(desk.workspace, desk.config).servers
    asyncio.run(ask_offers(desk.config, desk.workspace, server))
    return desk


def prepared(desk: Desk, line: str) -> str | None:
    found = asyncio.run(prepare_line(desk.config, desk.workspace, line))
    return found.text if found else None


def test_a_prompt_of_a_server_is_entered_by_its_name(known: Desk) -> None:
    prompts = list_prompts(known.config, known.workspace)
    assert prompts["mcp:peer:review"].hint == "<code>"
    assert prepared(known, "/mcp:peer:review 'x = 1' and more") == "Please review: x = 1 and more"
    assert prepared(known, "/mcp:peer:review code=y") == "Please review: y"
    with pytest.raises(UsageError) as refused:
        prepared(known, "/mcp:peer:review")
    assert "code" in refused.value.message
    assert prepared(known, "/mcp:peer:other x") is None
    assert prepared(known, "/mcp:nobody:review x") is None


def test_a_resource_that_a_text_names_is_said_with_it(known: Desk) -> None:
    text = "Compare @peer:note://a with @peer:static://readme, and mail me@peer:static://readme."
    said = prepared(known, text)
    assert said is not None
    head, first, second = said.split("\n\n")
    assert head == text
    assert first.endswith("\nthe note a")
    assert second.endswith("\nread me")


@pytest.mark.parametrize("text", ["no server", "look at @src/a.py:3", "@nobody:note://a", "@peer:readme"])
def test_other_texts_are_said_as_they_are_and_start_no_server(desk: Desk, text: str) -> None:
    desk.servers = {"peer": peer("dies")}
    assert prepared(desk, text) is None


def test_a_server_that_does_not_answer_is_told_before_anything_is_said(desk: Desk) -> None:
    desk.servers = {"peer": peer("garbage")}
    with pytest.raises(UsageError) as refused:
        asyncio.run(with_resources(desk.config, desk.workspace, "see @peer:note://a"))
    assert "peer" in refused.value.message
    assert refused.value.remedy

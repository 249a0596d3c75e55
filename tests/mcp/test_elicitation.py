"""A server that asks a person in the middle of a call: their answer reaches it, and is on record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring.app.operations.answers import nobody
from mainspring.events import ApprovalAsked, ApprovalGiven
from mainspring.mcp.elicitation import content, question
from tests.mcp.conftest import Desk, call, peer

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "who you are"},
        "age": {"type": "integer"},
        "size": {"type": "string", "enum": ["S", "M"]},
        "is_new": {"type": "boolean"},
    },
    "required": ["name"],
}
COLOR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}


@pytest.mark.parametrize(
    ("answer", "schema", "sent"),
    [
        ("green", COLOR, {"color": "green"}),
        ("color=green", COLOR, {"color": "green"}),
        ("a, b = c", COLOR, {"color": "a, b = c"}),
        ("", COLOR, None),
        (
            "name=Ann, age=7, size=m, is_new=yes",
            PERSON,
            {"name": "Ann", "age": 7, "size": "M", "is_new": True},
        ),
        ("name=Ann\nis_new=no", PERSON, {"name": "Ann", "is_new": False}),
        ('{"name": "Ann", "age": 7}', PERSON, {"name": "Ann", "age": 7}),
        ("name=Ann, age=old", PERSON, None),
        ("name=Ann, size=XL", PERSON, None),
        ("age=7", PERSON, None),
        ("Ann", PERSON, None),
        ('{"name": "Ann", "other": 1}', PERSON, None),
        ("yes", {}, {}),
    ],
)
def test_an_answer_becomes_what_the_server_asked_for(
    answer: str, schema: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    assert content(answer, schema) == sent


def test_a_person_reads_who_asks_what_and_how_to_answer() -> None:
    text = question("peer", "Who?", PERSON)
    assert text.splitlines()[0] == "The MCP server peer asks: Who?"
    assert "  size: one of S, M" in text
    assert "name=…" in text
    assert "https://x.example" in question("peer", "Log in", {}, "https://x.example")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (["green"], "accept green"),
        ([None], "decline"),
        (["", "blue"], "accept blue"),
        (["", ""], "cancel"),
    ],
)
def test_a_server_is_answered_in_the_middle_of_a_call(
    desk: Desk, answers: list[str | None], told: str
) -> None:
    desk.servers = {"peer": peer("handshake")}
    asked: list[ApprovalAsked] = []

    async def approver(waiting: ApprovalAsked) -> ApprovalGiven:
        asked.append(waiting)
        said = answers[len(asked) - 1]
        return ApprovalGiven(
            call=waiting.call,
            arguments_sha256=waiting.arguments_sha256,
            decision="reject" if said is None else "allow",
            feedback=said or "",
        )

    asyncio.run(desk.ask(call("mcp__peer__ask"), "done", approver=approver))
    (ended,) = asyncio.run(desk.ended())
    assert (ended.outcome, ended.output) == ("ok", told)
    assert len(asked) == len(answers)
    assert "Which color?" in asked[0].reason
    recorded = [type(event) for event in asyncio.run(desk.events())]
    assert recorded.count(ApprovalAsked) == recorded.count(ApprovalGiven) == len(answers)


def test_without_a_person_a_server_is_declined(desk: Desk) -> None:
    desk.servers = {"peer": peer("handshake")}
    asyncio.run(desk.ask(call("mcp__peer__ask"), "done", approver=nobody))
    (ended,) = asyncio.run(desk.ended())
    assert ended.output == "decline"
    (given,) = [event for event in asyncio.run(desk.events()) if isinstance(event, ApprovalGiven)]
    assert given.decision == "expire"

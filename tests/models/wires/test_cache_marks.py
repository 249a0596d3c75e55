"""What is marked for the cache over chat completions, and what becomes of a server that takes no marks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.errors import BadRequest
from mainspring.events import CallAsked, Text
from mainspring.models import AssistantMessage, Request, ResultsMessage, ToolResult, UserMessage
from mainspring.models.providers import parse_model
from mainspring.models.wires.chat import ChatModel

MARK = {"type": "ephemeral"}
CLAUDES = [
    "openrouter/anthropic/claude-sonnet-4.5",
    "openai-compatible@https://proxy.example/v1#claude-sonnet-4-5",
]
OTHERS = ["openrouter/openai/gpt-5", "openai-compatible@https://x.example/v1#llama", "groq/claude-like"]


def model_of(name: str) -> ChatModel:
    spec = parse_model(name)
    return ChatModel(name, "http://127.0.0.1:9/v1", "key", spec.model, quirks=spec.provider.quirks)


def sent(model: ChatModel) -> list[dict[str, Any]]:
    """What is sent after a question, two calls with their results, and another question."""
    asked = tuple(CallAsked(call=call, name="read", arguments="{}") for call in ("c1", "c2"))
    messages = (
        UserMessage(text="first"),
        AssistantMessage(parts=(Text(text="I look."), *asked)),
        ResultsMessage(
            results=tuple(ToolResult(call=call.call, name="read", text="found") for call in asked)
        ),
        AssistantMessage(parts=(Text(text="I see."),)),
        UserMessage(text="second"),
    )
    encoded = tuple(model.encode(message) for message in messages)
    body = msgspec.json.decode(model.body(Request(system="be good", tools=(), messages=encoded)))
    return body["messages"]


def marks(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Role and text of each message that has a mark."""
    return [
        (message["role"], part["text"])
        for message in messages
        for part in (message["content"] if isinstance(message["content"], list) else ())
        if part.get("cache_control") == MARK
    ]


@pytest.mark.parametrize("name", CLAUDES)
def test_claude_gets_marks_on_the_prompt_and_the_last_two_messages(name: str) -> None:
    messages = sent(model_of(name))
    assert marks(messages) == [("system", "be good"), ("tool", "found"), ("user", "second")]
    assert [message["role"] for message in messages] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "user",
    ]  # fmt: skip
    assert messages[3]["content"] == "found"


@pytest.mark.parametrize("name", OTHERS)
def test_others_get_none(name: str) -> None:
    messages = sent(model_of(name))
    assert marks(messages) == []
    assert messages[0] == {"role": "system", "content": "be good"}


def test_a_server_that_refuses_marks_is_asked_without_them() -> None:
    model = model_of(CLAUDES[1])
    assert marks(sent(model))
    refusal = BadRequest("The server did not accept the request (400: messages.0.content must be a string).")
    assert model.heal(refusal)
    assert marks(sent(model)) == []
    assert not model.heal(refusal)

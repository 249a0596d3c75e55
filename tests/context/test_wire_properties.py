"""Random journals over every wire: each request is one that its provider takes, and begins with the bytes of the
one before it. The rules are those that the providers document and refuse by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.context.history import History, load_history
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    Compacted,
    Part,
    Recorded,
    Text,
    Thinking,
    ToolSpec,
    Undone,
)
from mainspring.models import Request
from mainspring.models.wires.anthropic import AnthropicModel
from mainspring.models.wires.chat import ChatModel
from mainspring.models.wires.gemini import GeminiModel
from mainspring.models.wires.responses import ResponsesModel
from mainspring.models.wires.wire import Wire
from mainspring.testing.memory import MemoryJournal
from mainspring.testing.strictness import problem
from tests.context.test_context_properties import CUTS, check_chat, compacted, journals
from tests.models.every_wire import DIALECTS

HERE = "http://127.0.0.1:9"
TOOLS = (ToolSpec(name="read", description="Reads.", parameters={"type": "object"}),)
CACHED = b',"cache_control":{"type":"ephemeral"}'
THOUGHTS = [
    Thinking(text="hm", opaque="c2ln", wire="anthropic"),
    Thinking(text="", opaque='{"type":"reasoning","id":"r","summary":[],"encrypted_content":"x"}', wire="responses"),
    Thinking(text="hm", wire="chat"),
    Thinking(text="hm", opaque="c2ln", wire="gemini"),
]  # fmt: skip


def check_anthropic(body: dict[str, Any]) -> None:
    waiting: list[str] = []
    assert body["messages"][0]["role"] == "user"
    for message in body["messages"]:
        blocks = message["content"]
        assert blocks
        for block in blocks:
            assert block["type"] != "text" or block["text"].strip(), "text blocks must not be blank"
        given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert given == waiting, "results stand directly behind their calls, and nowhere else"
        assert [block["type"] for block in blocks[: len(given)]] == ["tool_result"] * len(given)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert message["role"] == "assistant" or not waiting
        assert all(isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use")
        assert blocks[-1]["type"] != "thinking"
    assert waiting == []


def check_gemini(body: dict[str, Any]) -> None:
    waiting: list[str] = []
    assert body["contents"][0]["role"] == "user"
    for content in body["contents"]:
        parts = content["parts"]
        assert parts
        assert all(part.get("text", "x") for part in parts)
        given = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        assert given == waiting, "as many results as calls, directly behind them"
        waiting = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        assert content["role"] == "model" or not waiting
        assert all(isinstance(part["functionCall"]["args"], dict) for part in parts if "functionCall" in part)
    assert waiting == []


def check_responses(body: dict[str, Any]) -> None:
    waiting: list[str] = []
    is_answering = False
    for item, following in zip(body["input"], [*body["input"][1:], {}], strict=True):
        match item["type"]:
            case "function_call":
                assert not is_answering
                assert isinstance(msgspec.json.decode(item["arguments"]), dict)
                waiting.append(item["call_id"])
            case "function_call_output":
                is_answering = True
                assert item["call_id"] == waiting.pop(0)
            case "reasoning":
                assert following.get("type") in ("reasoning", "message", "function_call")
                assert following.get("role", "assistant") == "assistant"
            case _:
                assert not waiting
                assert item["content"]
        is_answering = is_answering and bool(waiting)
    assert waiting == []


def check_chat_body(body: dict[str, Any]) -> None:
    check_chat([msgspec.json.encode(message) for message in body["messages"][1:]])


WIRES: dict[str, tuple[Callable[[], Wire], Callable[[dict[str, Any]], None]]] = {
    "chat": (lambda: ChatModel("m", f"{HERE}/v1", "k", "m"), check_chat_body),
    "responses": (lambda: ResponsesModel("m", f"{HERE}/v1", "k", "gpt-5"), check_responses),
    "anthropic": (lambda: AnthropicModel("m", HERE, "k", "claude-opus-5"), check_anthropic),
    "gemini": (lambda: GeminiModel("m", f"{HERE}/v1beta", "k", "gemini-3-pro"), check_gemini),
}


@st.composite
def renamed(draw: st.DrawFn, part: Part) -> Part:
    """A call of a tool that a model made up."""
    if not isinstance(part, CallAsked):
        return part
    return msgspec.structs.replace(
        part, name=draw(st.sampled_from([part.name, "functions.do", "", "a b", "ä" * 99]))
    )


@st.composite
def thoughtful(draw: st.DrawFn) -> list[Recorded]:
    """A journal in which models of all wires have thought, and said nothing but spaces."""
    recorded = draw(journals())
    for position, item in enumerate(recorded):
        if isinstance(item.event, AssistantSaid) and draw(st.booleans()):
            before: list[Part] = [draw(st.sampled_from(THOUGHTS))]
            before += [Text(text="\n ")] if draw(st.booleans()) else []
            said = [draw(renamed(part)) for part in item.event.parts]
            event = msgspec.structs.replace(item.event, parts=(*before, *said))
            recorded[position] = Recorded(item.seq, item.time_us, event)
    return recorded


def history_of(recorded: list[Recorded], wire: Wire) -> History:
    return asyncio.run(load_history(MemoryJournal(recorded), wire.encode))


def sent(history: History, wire: Wire) -> tuple[bytes, bytes]:
    """The body of a request, without cache marks, and how it stays when more is said."""
    messages = asyncio.run(history.messages(lambda blob: None))  # type: ignore[arg-type,return-value]
    body = wire.body(Request("You are a test.", TOOLS, messages)).replace(CACHED, b"")
    joined = b",".join(messages)
    return body, body[: body.index(joined) + len(joined)]


@pytest.mark.parametrize("wire", WIRES)
@given(recorded=thoughtful())
@settings(max_examples=60)
def test_every_request_is_one_that_its_provider_takes(wire: str, recorded: list[Recorded]) -> None:
    build, check = WIRES[wire]
    model = build()
    body, _ = sent(history_of(recorded, model), model)
    check(msgspec.json.decode(body))
    assert problem(DIALECTS[wire], body) == ""
    assert body == sent(history_of(recorded, build()), build())[0]


@pytest.mark.parametrize("wire", WIRES)
@given(recorded=thoughtful(), how=CUTS)
@settings(max_examples=60)
def test_it_still_is_after_a_compaction(wire: str, recorded: list[Recorded], how: Any) -> None:
    build, check = WIRES[wire]
    model = build()
    after = [*recorded, Recorded(len(recorded) + 1, 0, compacted(recorded, *how))]
    body, _ = sent(history_of(after, model), model)
    check(msgspec.json.decode(body))
    assert problem(DIALECTS[wire], body) == ""


@pytest.mark.parametrize("wire", WIRES)
@given(recorded=thoughtful())
@settings(max_examples=40)
def test_each_request_begins_with_the_one_before_on_every_wire(wire: str, recorded: list[Recorded]) -> None:
    model = WIRES[wire][0]()
    history, before = History(model.encode), b""
    is_open: set[str] = set()
    for item in recorded:
        if isinstance(item.event, Undone | Compacted):
            return
        history.apply(item)
        if isinstance(item.event, AssistantSaid):
            is_open = {part.call for part in item.event.parts if isinstance(part, CallAsked)}
        elif isinstance(item.event, CallEnded):
            is_open.discard(item.event.call)
        if is_open or history.is_answered:
            continue  # no request is made then
        body, kept = sent(history, model)
        assert body.startswith(before)
        before = kept

"""Counts that no server should send, and replies that name another type than they have."""

from typing import Any

import msgspec
import pytest

from mainspring.errors import NetworkFailed
from mainspring.events import Text, Usage
from mainspring.models import ReplyFinished, StreamItem
from mainspring.models.reply import ReplyBuilder
from mainspring.models.wires.http import _Intake
from tests.models.every_wire import build

WRONG = [-5, 10**30, 1e300, "many", None, [], {"a": 1}]


def _event(fields: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def _reply(wire: str, count: Any, part: Any = 0) -> bytes:
    """A reply whose input and output are both counted so, and whose cached input is counted as `part`."""
    match wire:
        case "chat":
            usage = {"prompt_tokens": count, "completion_tokens": count}
            usage["prompt_tokens_details"] = {"cached_tokens": part}
            chunk = {"choices": [{"delta": {"content": "fine"}, "finish_reason": "stop"}], "usage": usage}
            return _event(chunk)
        case "anthropic":
            usage = {"input_tokens": count, "output_tokens": count, "cache_read_input_tokens": part}
            block = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "fine"}}
            end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
            return _event(block) + _event(end) + _event({"type": "message_stop"})
        case "responses":
            usage = {"input_tokens": count, "output_tokens": count}
            usage["input_tokens_details"] = {"cached_tokens": part}
            item = {"type": "message", "content": [{"type": "output_text", "text": "fine"}]}
            response = {"status": "completed", "output": [item], "usage": usage}
            done = {"type": "response.output_item.done", "item": item}
            return _event(done) + _event({"type": "response.completed", "response": response})
        case _:
            usage = {
                "promptTokenCount": count,
                "candidatesTokenCount": count,
                "cachedContentTokenCount": part,
            }
            candidate = {"content": {"parts": [{"text": "fine"}]}, "finishReason": "STOP"}
            return _event({"candidates": [candidate], "usageMetadata": usage})


def _read(wire: str, received: bytes, content_type: str = "text/event-stream") -> tuple[str, Usage]:
    model = build(wire)
    intake = _Intake(model._reader(), model._endpoint, content_type)
    items: list[StreamItem] = [*intake.take(received), *intake.end()]
    reply = ReplyBuilder()
    for item in items[:-1]:
        reply.add(item)  # type: ignore[arg-type]
    [said] = reply.parts(1)
    assert isinstance(said, Text)
    assert isinstance(items[-1], ReplyFinished)
    return said.text, items[-1].usage


WIRES = ["chat", "anthropic", "responses", "gemini"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("count", WRONG)
def test_a_count_that_is_none_is_zero_and_the_reply_is_read(wire: str, count: Any) -> None:
    assert _read(wire, _reply(wire, count)) == ("fine", Usage())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("count", [7, 7.0, "7"])
def test_a_count_in_another_form_is_taken_as_meant(wire: str, count: Any) -> None:
    assert _read(wire, _reply(wire, count)) == ("fine", Usage(input_tokens=7, output_tokens=7))


@pytest.mark.parametrize("wire", ["chat", "responses", "gemini"])
def test_no_more_is_cached_than_was_sent(wire: str) -> None:
    usage = Usage(input_tokens=7, cached_tokens=7, output_tokens=7)
    assert _read(wire, _reply(wire, 7, 50)) == ("fine", usage)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "kind", ["application/json", "text/html", "text/plain", "", "application/octet-stream"]
)
def test_events_are_read_whatever_type_they_have(wire: str, kind: str) -> None:
    assert _read(wire, b"\n: hello\n\n" + _reply(wire, 7), kind)[0] == "fine"


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/html", ""])
def test_a_whole_reply_is_read_whatever_type_it_has(kind: str) -> None:
    whole = {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}
    assert _read("chat", b"\r\n" + msgspec.json.encode(whole), kind)[0] == "fine"


@pytest.mark.parametrize("kind", ["text/html", "text/event-stream", "application/json"])
def test_a_web_page_is_named(kind: str) -> None:
    with pytest.raises(NetworkFailed, match="a web page"):
        _read("chat", b" <!doctype html>", kind)


def test_what_is_no_reply_is_shown() -> None:
    with pytest.raises(NetworkFailed, match="null"):
        _read("chat", b"null", "application/json")
    with pytest.raises(NetworkFailed, match="an empty one"):
        _read("chat", b"", "application/json")
    with pytest.raises(NetworkFailed, match="in the middle of its reply"):
        _read("chat", b"", "text/event-stream")

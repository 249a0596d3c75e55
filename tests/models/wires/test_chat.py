import asyncio
from typing import Any

import msgspec
import pytest

from mainspring import errors
from mainspring.events import CallAsked, CallDelta, Text, TextDelta, Thinking, ThinkingDelta, ToolSpec, Usage
from mainspring.models import (
    AssistantMessage,
    Attachment,
    ReplyFinished,
    Request,
    ResultsMessage,
    StreamItem,
    ToolResult,
    UserMessage,
)
from mainspring.models.failures import Endpoint
from mainspring.models.reply import ReplyBuilder
from mainspring.models.scripted import Script, ScriptedCall, ScriptedReply
from mainspring.models.wires.chat import ChatModel, ChatQuirks, _Reader
from mainspring.testing.server import ModelServer
from tests.models.every_wire import PNG, PNG64

TOOL = ToolSpec(name="read", description="Reads.", parameters={"type": "object", "properties": {"path": {}}})


def model(url: str = "http://127.0.0.1:9/v1", **options: Any) -> ChatModel:
    return ChatModel("test/m", url, "key", "m", **options)


def encoded(message: Any, **options: Any) -> Any:
    return msgspec.json.decode(b"[" + model(**options).encode(message) + b"]")


def read(*chunks: Any) -> list[StreamItem]:
    reader = _Reader(Endpoint("Test", "http://test", "m"))
    items: list[StreamItem] = []
    for chunk in chunks:
        items += reader.feed(chunk if isinstance(chunk, bytes) else msgspec.json.encode(chunk))
    return items + reader.end()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return delta(tool_calls=[{**fields, "function": {"name": name, "arguments": arguments}}])


def asked(items: list[StreamItem]) -> list[tuple[str, str]]:
    calls: dict[int, tuple[str, str]] = {}
    for item in items:
        if isinstance(item, CallDelta):
            name, arguments = calls.get(item.index, ("", ""))
            calls[item.index] = (name + item.name, arguments + item.arguments)
    return [calls[index] for index in sorted(calls)]


def stream(script: Script, request: Request, **options: Any) -> tuple[list[StreamItem], ModelServer]:
    async def run() -> tuple[list[StreamItem], ModelServer]:
        async with ModelServer(script) as server:
            chat = model(server.url, **options)
            items = [item async for item in chat.stream(request)]
            await chat.close()
            return items, server

    return asyncio.run(run())


def test_a_user_message_is_text_or_parts_with_data_urls() -> None:
    assert encoded(UserMessage("hi")) == [{"role": "user", "content": "hi"}]
    picture = Attachment("image/png", PNG, "a.png")
    paper = Attachment("application/pdf", b"%PDF", "b.pdf")
    notes = Attachment("text/plain", b"words", "c.txt")
    sound = Attachment("audio/wav", b"RIFF", "d.wav")
    [message] = encoded(UserMessage("look", (picture, paper, notes, sound)))
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG64}"}},
        {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "text", "text": "c.txt\nwords"},
        {"type": "text", "text": "[d.wav: audio/wav cannot be shown to this model]"},
        {"type": "text", "text": "look"},
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ("[]", '{"malformed_arguments":"[]"}'),
        ("null", '{"malformed_arguments":"null"}'),
        ('{"a": ', '{"malformed_arguments":"{\\"a\\": "}'),
        ("[" * 9999, '{"malformed_arguments":"' + "[" * 9999 + '"}'),
        ('{"a":1e999}', '{"malformed_arguments":"{\\"a\\":1e999}"}'),
        ('{"a":"\\u0000\\\\u0000"}', '{"a":"\\ufffd\\\\u0000"}'),
        ('{"a":' * 60 + "1" + "}" * 60, '{"a":' * 60 + "1" + "}" * 60),
        ('{"a":[{},' + "{}," * 99 + "1]}", '{"a":[{},' + "{}," * 99 + "1]}"),
        ('{"":' * 99 + "1" + "}" * 99, '{"malformed_arguments":"' + '{\\"\\":' * 99 + "1" + "}" * 99 + '"}'),
    ],
)
def test_arguments_go_back_as_the_text_of_an_object_whatever_the_model_wrote(
    arguments: str, sent: str
) -> None:
    parts = (
        Text(text="so"),
        CallAsked(call="c00001000", name="read", arguments=arguments, provider_id="xyz"),
    )
    assert encoded(AssistantMessage(parts)) == [
        {
            "role": "assistant",
            "content": "so",
            "tool_calls": [
                {"id": "c00001000", "type": "function", "function": {"name": "read", "arguments": sent}}
            ],
        }
    ]


def test_thinking_goes_back_only_where_the_server_wants_it_and_only_its_own() -> None:
    parts = (Thinking(text="hm", wire="chat"), Thinking(text="no", wire="anthropic"), Text(text="so"))
    assert encoded(AssistantMessage(parts)) == [{"role": "assistant", "content": "so"}]
    [message] = encoded(AssistantMessage(parts), quirks=ChatQuirks(thinking_field="reasoning_content"))
    assert message["reasoning_content"] == "hm"


def test_results_are_one_message_each_and_their_images_follow() -> None:
    picture = Attachment("image/png", PNG)
    results = (ToolResult("c1", "read", "fine"), ToolResult("c2", "shell", "exit 1", True, (picture,)))
    messages = encoded(ResultsMessage(results))
    assert messages[:2] == [
        {"role": "tool", "tool_call_id": "c1", "content": "fine"},
        {"role": "tool", "tool_call_id": "c2", "content": "[error] exit 1"},
    ]
    assert messages[2]["role"] == "user"
    assert messages[2]["content"][0]["type"] == "image_url"


def test_the_body_has_sorted_keys_and_what_changes_stands_behind_the_messages() -> None:
    chat = model(quirks=ChatQuirks(max_tokens_field="max_completion_tokens"))
    body = chat.body(Request("be good", (TOOL,), [chat.encode(UserMessage("hi"))], max_output_tokens=99))
    assert list(msgspec.json.decode(body)) == [
        "model",
        "stream",
        "stream_options",
        "tools",
        "messages",
        "max_completion_tokens",
    ]
    assert msgspec.json.decode(body)["messages"] == [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": "hi"},
    ]


@pytest.mark.parametrize("system", ["be good", ""])
def test_each_request_starts_with_the_bytes_of_the_one_before(system: str) -> None:
    chat, other = model(), model()
    history: list[Any] = [UserMessage("hi")]
    before = chat.body(Request(system, (TOOL,), [chat.encode(message) for message in history]))
    for step in range(5):
        history.append(AssistantMessage((CallAsked(call=f"c{step}", name="read", arguments="{}"),)))
        history.append(ResultsMessage((ToolResult(f"c{step}", "read", "ok"),)))
        body = chat.body(Request(system, (TOOL,), [chat.encode(message) for message in history]))
        assert body.startswith(before[:-2])
        assert body == other.body(Request(system, (TOOL,), [other.encode(message) for message in history]))
        before = body


def test_a_reply_comes_as_text_thinking_calls_and_usage() -> None:
    usage = Usage(input_tokens=100, cached_tokens=60, output_tokens=20, reasoning_tokens=5)
    reply = ScriptedReply(
        text="größer 😀",
        thinking="hm",
        calls=(ScriptedCall("read", {"path": "ä"}),),
        usage=usage,
        slice_bytes=3,
    )
    items, server = stream(Script((reply,)), Request("s", (TOOL,), []))
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == "größer 😀"
    assert "".join(item.text for item in items if isinstance(item, ThinkingDelta)) == "hm"
    assert asked(items) == [("read", '{"path":"ä"}')]
    assert items[-1] == ReplyFinished("calls", usage)
    assert server.seen[0].headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param(
            [call("a", "", index=0, id="1"), call(None, '{"x"', index=0), call(None, ":1}", index=0),
             call("b", "{}", index=1, id="2")],
            [("a", '{"x":1}'), ("b", "{}")], id="as documented"),
        pytest.param(
            [call("a", "", id="1"), call(None, "{}"), call("b", "", id="2"), call(None, "{}", id="2")],
            [("a", "{}"), ("b", "{}")], id="no index"),
        pytest.param(
            [call("a", "{}", index=0, id="1"), call("b", "{}", index=0, id="2")],
            [("a", "{}"), ("b", "{}")], id="whole calls with the same index"),
        pytest.param(
            [call("a", "{}", index=0, id=""), call("b", "{}", index=0, id="")],
            [("a", "{}"), ("b", "{}")], id="whole calls with the same index and no id"),
        pytest.param(
            [call("a", "{}"), call("a", "{}")], [("a", "{}"), ("a", "{}")], id="nothing but names"),
        pytest.param(
            [call("a", '{"x"', index=0, id="1"), call("a", ":1}", index=0, id="1")],
            [("a", '{"x":1}')], id="name and id repeated"),
        pytest.param(
            [call("a", "", index=0, id="1"), call("", "{}", index=0, id="")],
            [("a", "{}")], id="empty strings"),
        pytest.param([call("a", {"x": 1}, index=0)], [("a", '{"x":1}')], id="arguments as an object"),
        pytest.param([call("a", "", index=0, id="1")], [("a", "")], id="no arguments"),
        pytest.param([call("a", "{}", index=1, id="1")], [("a", "{}")], id="index from one"),
    ],
)  # fmt: skip
def test_fragments_find_their_call_however_a_server_labels_them(
    chunks: list[Any], expected: list[tuple[str, str]]
) -> None:
    items = read(*chunks, delta("tool_calls"), b"[DONE]")
    assert asked(items) == expected
    assert sorted({item.index for item in items if isinstance(item, CallDelta)}) == list(range(len(expected)))
    assert isinstance(items[-1], ReplyFinished)
    assert items[-1].stop == "calls"


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("content_filter", "refused"),
        ("eos", "end"),
        ("tool_calls", "end"),
    ],
)
def test_stop_reasons_are_ours(finish: str, stop: str) -> None:
    assert read(delta(content="x"), delta(finish))[-1] == ReplyFinished(stop, Usage())  # type: ignore[arg-type]


def test_calls_count_as_calls_even_when_the_server_says_stop() -> None:
    assert read(call("a", "{}", index=0), delta("stop"))[-1] == ReplyFinished("calls", Usage())


def test_a_refusal_in_its_own_field_is_text_with_a_refused_stop() -> None:
    assert read(delta(refusal="I cannot."), delta("stop")) == [
        TextDelta(text="I cannot."),
        ReplyFinished("refused", Usage()),
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_found_under_both_names(field: str) -> None:
    assert read(delta(**{field: "hm"}), delta("stop"))[0] == ThinkingDelta(text="hm", wire="chat")


def test_content_in_parts_is_told_apart() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "so"},
    ]
    assert read(delta(content=parts), delta("stop"))[:2] == [
        ThinkingDelta(text="hm", wire="chat"),
        TextDelta(text="so"),
    ]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
         Usage(input_tokens=9, cached_tokens=4, output_tokens=2)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 16,
          "completion_tokens_details": {"reasoning_tokens": 5}},
         Usage(input_tokens=9, output_tokens=7, reasoning_tokens=5)),
        ({"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16,
          "completion_tokens_details": {"reasoning_tokens": 5}},
         Usage(input_tokens=9, output_tokens=7, reasoning_tokens=5)),
        ({"prompt_tokens": 9, "completion_tokens": None, "prompt_tokens_details": None},
         Usage(input_tokens=9)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["top", "groq", "choice", "null choices"])
def test_usage_is_read_wherever_it_stands(usage: dict[str, Any], expected: Usage, place: str) -> None:
    last: dict[str, Any] = {
        "top": {"choices": [], "usage": usage},
        "groq": {"choices": [], "x_groq": {"usage": usage}},
        "choice": {"choices": [{"delta": {}, "usage": usage}]},
        "null choices": {"choices": None, "usage": usage},
    }[place]
    assert read(delta("stop", content="x"), last, b"[DONE]")[-1] == ReplyFinished("end", expected)


def test_a_stream_that_ends_without_a_reason_was_dropped() -> None:
    with pytest.raises(errors.NetworkFailed, match="closed the connection"):
        read(delta(content="half a sen"))


def test_a_stream_that_says_done_is_whole_even_without_a_reason() -> None:
    assert read(delta(content="x"), b"[DONE]")[-1] == ReplyFinished("end", Usage())


def test_an_error_inside_a_stream_is_raised() -> None:
    with pytest.raises(errors.Overloaded, match="Provider returned error"):
        read({"error": {"code": 502, "message": "Provider returned error"}, "choices": []})
    with pytest.raises(errors.Overloaded):
        read(delta("error"))


def test_a_reply_that_comes_whole_is_a_stream_of_one_item() -> None:
    message = {"role": "assistant", "content": "so", "tool_calls": [{"id": "1", "function": {"name": "a"}}]}
    items = read({"choices": [{"message": message, "finish_reason": "tool_calls"}], "error": None})
    assert items == [
        TextDelta(text="so"),
        CallDelta(index=0, name="a", provider_id="1"),
        ReplyFinished("calls", Usage()),
    ]


def test_reasoning_in_details_is_merged_and_goes_back_as_it_came() -> None:
    first = {"type": "reasoning.text", "index": 0, "text": "Let me", "format": "anthropic-claude-v1"}
    second = {"type": "reasoning.text", "index": 0, "text": " see.", "signature": "c2ln", "id": None}
    hidden = {"type": "reasoning.encrypted", "index": 1, "data": "abc"}
    items = read(
        delta(reasoning="Let me", reasoning_details=[first]),
        delta(reasoning=" see.", reasoning_details=[second, hidden]),
        delta("stop", content="so"),
    )
    reply = ReplyBuilder()
    for item in items[:-1]:
        reply.add(item)  # type: ignore[arg-type]
    quirks = ChatQuirks(thinking_field="reasoning_details")
    [message] = encoded(AssistantMessage(reply.parts(1)), quirks=quirks)
    assert message == {
        "role": "assistant",
        "content": "so",
        "reasoning_details": [
            {
                "type": "reasoning.text",
                "index": 0,
                "text": "Let me see.",
                "signature": "c2ln",
                "format": "anthropic-claude-v1",
            },
            hidden,
        ],
    }
    assert encoded(AssistantMessage(reply.parts(1))) == [{"role": "assistant", "content": "so"}]


def test_a_reply_stands_between_results_and_a_user_where_a_server_wants_it() -> None:
    chat = model(quirks=ChatQuirks(needs_bridge=True))
    picture = Attachment("image/png", PNG)
    call = CallAsked(call="c00001000", name="read", arguments="{}")
    history: list[Any] = [
        UserMessage("hi"),
        UserMessage("there"),
        AssistantMessage((call,)),
        ResultsMessage((ToolResult("c00001000", "read", "ok"),)),
        UserMessage("by the way"),
        AssistantMessage((call,)),
        ResultsMessage((ToolResult("c00001000", "read", "ok", attachments=(picture,)),)),
    ]
    body = chat.body(Request("", (), [chat.encode(message) for message in history]))
    roles = [message["role"] for message in msgspec.json.decode(body)["messages"]]
    assert roles == [
        "user", "user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip

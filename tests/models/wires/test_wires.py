"""One table of cases through every wire: what the model would have seen, and what was made of its reply."""

from typing import Any

import msgspec
import pytest

from mainspring.events import CallAsked, Text, Thinking, ToolSpec, Usage
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Message,
    ReplyFinished,
    Request,
    ResultsMessage,
    ToolResult,
    UserMessage,
)
from mainspring.models.scripted import Fault, Script, ScriptedCall, ScriptedReply
from tests.models.every_wire import PNG, PNG64, WIRES, ask, build

TOOL = ToolSpec(
    name="read",
    description="Reads a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
PICTURE = Attachment("image/png", PNG, "a.png")
PAPER = Attachment("application/pdf", b"%PDF", "b.pdf")
USAGE = Usage(input_tokens=100, cached_tokens=60, output_tokens=20)
OPAQUE = {
    "chat": "",
    "responses": '{"encrypted_content":"sealed-thought","id":"rs_1",'
    '"summary":[{"text":"Let me see.","type":"summary_text"}],"type":"reasoning"}',
    "anthropic": "c2lnbmF0dXJl",
    "gemini": "",
}


def reply(text: str = "", **fields: Any) -> ScriptedReply:
    return ScriptedReply(text=text, usage=USAGE, **fields)


CASES: dict[str, tuple[ScriptedReply, list[Any], str]] = {
    "text": (reply("Hello."), [("text", "Hello.")], "end"),
    "thinking and text": (
        reply("So.", thinking="Let me see."),
        [("thinking", "Let me see."), ("text", "So.")],
        "end",
    ),
    "one call": (
        reply(calls=(ScriptedCall("read", {"path": "a"}),)),
        [("call", "read", '{"path":"a"}')],
        "calls",
    ),
    "text and parallel calls": (
        reply("Both.", calls=(ScriptedCall("read", {"path": "a"}), ScriptedCall("read", {"path": "b"}))),
        [("text", "Both."), ("call", "read", '{"path":"a"}'), ("call", "read", '{"path":"b"}')],
        "calls",
    ),
    "fragmented arguments": (
        reply(calls=(ScriptedCall("read", {"path": "a" * 50}),), chunk_size=3),
        [("call", "read", '{"path":"' + "a" * 50 + '"}')],
        "calls",
    ),
    "empty arguments": (reply(calls=(ScriptedCall("list"),)), [("call", "list", "{}")], "calls"),
    "unicode cut anywhere": (
        reply("größer 😀 日本", thinking="ß", calls=(ScriptedCall("read", {"path": "ä😀"}),), slice_bytes=1),
        [("thinking", "ß"), ("text", "größer 😀 日本"), ("call", "read", '{"path":"ä😀"}')],
        "calls",
    ),
    "cut off": (reply("Half a", stop="length"), [("text", "Half a")], "length"),
    "refused": (reply("I cannot.", stop="refused"), [("text", "I cannot.")], "refused"),
    "nothing": (reply(), [], "end"),
}


def plain(part: Any) -> Any:
    match part:
        case Text():
            return ("text", part.text)
        case Thinking():
            return ("thinking", part.text)
        case CallAsked():
            return ("call", part.name, part.arguments or "{}")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("case", CASES)
def test_a_reply_is_the_same_over_every_wire(wire: str, case: str) -> None:
    scripted, expected, stop = CASES[case]
    [heard] = ask(wire, Script((scripted,)), [UserMessage("hi")], system="s", tools=(TOOL,))
    assert [plain(part) for part in heard.parts] == expected
    assert heard.finished == ReplyFinished(stop, USAGE)  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "gemini"])
def test_a_call_that_is_not_json_is_kept_as_it_was_written(wire: str) -> None:
    """Gemini's calls come as objects: there is no text to be malformed."""
    scripted = reply(calls=(ScriptedCall("read", '{"path": '),))
    [heard] = ask(wire, Script((scripted,)), [UserMessage("hi")], system="s", tools=(TOOL,))
    assert [plain(part) for part in heard.parts] == [("call", "read", '{"path": ')]


@pytest.mark.parametrize("wire", WIRES)
def test_usage_is_counted_the_same_way(wire: str) -> None:
    usage = Usage(input_tokens=100, cached_tokens=60, output_tokens=20, reasoning_tokens=5)
    if wire == "anthropic":
        usage = Usage(input_tokens=100, cached_tokens=60, cache_write_tokens=30, output_tokens=20)
    script = Script((ScriptedReply("x", usage=usage),))
    [heard] = ask(wire, script, [UserMessage("hi")], system="s", tools=())
    assert heard.finished.usage == usage


USER: list[Message] = [UserMessage("look", (PICTURE, PAPER))]
RESULTS = ResultsMessage(
    (
        ToolResult("c00001000", "read", "fine"),
        ToolResult("c00001001", "read", "no such file", True, (PICTURE,)),
    )
)


def second_request(wire: str, **options: Any) -> tuple[bytes, bytes, Any]:
    """The bodies of two steps; in between the model thought, spoke and asked for two calls."""
    calls = (ScriptedCall("read", {"path": "a"}), ScriptedCall("read", "[]" if wire != "gemini" else {}))
    script = Script((reply("So.", thinking="Let me see.", calls=calls),))
    [first] = ask(wire, script, USER, system="be good", tools=(TOOL,), options=options)
    history = [*USER, AssistantMessage(first.parts), RESULTS]
    [_, second] = ask(wire, script, USER, history, system="be good", tools=(TOOL,), options=options)
    return first.seen.body, second.seen.body, second.body


PNG_URL = f"data:image/png;base64,{PNG64}"
PDF_URL = "data:application/pdf;base64,JVBERg=="
MALFORMED = '{"malformed_arguments":"[]"}'


def test_what_chat_sees() -> None:
    _, _, body = second_request("chat")
    messages = body.pop("messages")
    function = {"name": "read", "description": "Reads a file.", "parameters": TOOL.parameters}
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": function}],
    }
    call = {"type": "function", "id": "c00001000", "function": {"name": "read", "arguments": '{"path":"a"}'}}
    bad = {"type": "function", "id": "c00001001", "function": {"name": "read", "arguments": MALFORMED}}
    assert messages == [
        {"role": "system", "content": "be good"},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": PNG_URL}},
                {"type": "file", "file": {"filename": "b.pdf", "file_data": PDF_URL}},
                {"type": "text", "text": "look"},
            ],
        },
        {"role": "assistant", "content": "So.", "tool_calls": [call, bad]},
        {"role": "tool", "tool_call_id": "c00001000", "content": "fine"},
        {"role": "tool", "tool_call_id": "c00001001", "content": "[error] no such file"},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": PNG_URL}},
                {"type": "text", "text": "These are the files that the results above speak of."},
            ],
        },
    ]


def test_requests_of_one_conversation_have_one_cache_key_and_others_another() -> None:
    def key(*messages: str, system: str = "be good") -> str:
        wire = build("responses")
        encoded = tuple(wire.encode(UserMessage(text=text)) for text in messages)
        return msgspec.json.decode(wire.body(Request(system=system, tools=(), messages=encoded)))[
            "prompt_cache_key"
        ]

    assert key("go") == key("go", "on")
    assert len({key("go"), key("stop"), key("go", system="be bad")}) == 3


def test_what_responses_sees() -> None:
    _, _, body = second_request("responses")
    items = body.pop("input")
    assert body.pop("prompt_cache_key").startswith("mainspring-")
    assert body == {
        "model": "gpt-5",
        "instructions": "be good",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "store": False,
        "stream": True,
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads a file.",
                "parameters": TOOL.parameters,
                "strict": False,
            }
        ],
    }
    called = {"type": "function_call", "name": "read"}
    assert items == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": PNG_URL},
                {"type": "input_file", "filename": "b.pdf", "file_data": PDF_URL},
                {"type": "input_text", "text": "look"},
            ],
        },
        msgspec.json.decode(OPAQUE["responses"]),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {**called, "call_id": "c00001000", "arguments": '{"path":"a"}'},
        {**called, "call_id": "c00001001", "arguments": MALFORMED},
        {"type": "function_call_output", "call_id": "c00001000", "output": "fine"},
        {
            "type": "function_call_output",
            "call_id": "c00001001",
            "output": [
                {"type": "input_image", "image_url": PNG_URL},
                {"type": "input_text", "text": "[error] no such file"},
            ],
        },
    ]


def test_what_anthropic_sees() -> None:
    _, _, body = second_request("anthropic")
    messages = body.pop("messages")
    cached = {"cache_control": {"type": "ephemeral"}}
    assert body == {
        "model": "claude-opus-5",
        "max_tokens": 32_000,
        "stream": True,
        "system": [{"type": "text", "text": "be good", **cached}],
        "thinking": {"type": "adaptive", "display": "summarized"},
        "tools": [{"name": "read", "description": "Reads a file.", "input_schema": TOOL.parameters}],
    }
    png = {"type": "base64", "media_type": "image/png", "data": PNG64}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    assert messages == [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": png},
                {"type": "document", "source": pdf},
                {"type": "text", "text": "look", **cached},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmF0dXJl"},
                {"type": "text", "text": "So."},
                {"type": "tool_use", "id": "c00001000", "name": "read", "input": {"path": "a"}},
                {
                    "type": "tool_use",
                    "id": "c00001001",
                    "name": "read",
                    "input": {"malformed_arguments": "[]"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c00001000", "content": "fine"},
                {
                    "type": "tool_result",
                    "tool_use_id": "c00001001",
                    "is_error": True,
                    "content": [
                        {"type": "image", "source": png},
                        {"type": "text", "text": "no such file"},
                    ],
                    **cached,
                },
            ],
        },
    ]


def test_what_gemini_sees() -> None:
    _, _, body = second_request("gemini")
    contents = body.pop("contents")
    declared = {"name": "read", "description": "Reads a file.", "parametersJsonSchema": TOOL.parameters}
    assert body == {
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
        "systemInstruction": {"parts": [{"text": "be good"}]},
        "tools": [{"functionDeclarations": [declared]}],
    }
    png = {"inlineData": {"mimeType": "image/png", "data": PNG64}}
    answer = {"id": "c00001001", "name": "read", "response": {"error": "no such file"}}
    assert contents == [
        {
            "role": "user",
            "parts": [
                png,
                {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
                {"text": "look"},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "So."},
                {
                    "functionCall": {"id": "c00001000", "name": "read", "args": {"path": "a"}},
                    "thoughtSignature": "c2lnbmF0dXJl",
                },
                {"functionCall": {"id": "c00001001", "name": "read", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c00001000", "name": "read", "response": {"output": "fine"}}},
                {"functionResponse": answer},
                png,
            ],
        },
    ]


def unmarked(body: bytes) -> bytes:
    return body.replace(b',"cache_control":{"type":"ephemeral"}', b"")


def opening(body: bytes) -> bytes:
    """A body up to the end of its messages."""
    text = unmarked(body)
    for end in (b'],"max_tokens"', b'],"generationConfig"', b'],"max_output_tokens"', b"]}"):
        start, found, _ = text.rpartition(end)
        if found:
            return start
    raise AssertionError(text)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("system", ["be good", ""])
def test_each_request_starts_with_the_bytes_of_the_one_before(wire: str, system: str) -> None:
    model, resumed = build(wire), build(wire)
    thought = Thinking(text="hm", opaque=OPAQUE[wire], wire=wire)
    history: list[Message] = [UserMessage("hi")]
    before = b""
    for step in range(6):
        messages = [model.encode(message) for message in history]
        body = model.body(Request(system, (TOOL,), messages, max_output_tokens=9000 - step))
        assert unmarked(body).startswith(before)
        again = [resumed.encode(message) for message in history]
        assert resumed.body(Request(system, (TOOL,), again, max_output_tokens=9000 - step)) == body
        assert msgspec.json.decode(body)
        before = opening(body)
        call = CallAsked(call=f"c0000{step}000", name="read", arguments='{"path": "a"}')
        history.append(AssistantMessage((thought, Text(text="go"), call)))
        history.append(ResultsMessage((ToolResult(call.call, "read", "ok"),)))


@pytest.mark.parametrize("wire", WIRES)
def test_history_of_another_wire_is_taken_without_what_only_its_author_can_verify(wire: str) -> None:
    model = build(wire)
    parts = tuple(
        part
        for other in (*WIRES, "unknown")
        if other != wire
        for part in (Thinking(text="secret", opaque="seal", wire=other),)
    )
    call = CallAsked(call="c00001000", name="read", arguments="{}", provider_id="toolu_9")
    encoded = model.encode(AssistantMessage((*parts, Text(text="so"), call)))
    assert b"secret" not in encoded
    assert b"seal" not in encoded
    assert b"toolu_9" not in encoded
    assert b"c00001000" in encoded


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "parts", [(), (Text(text=""),), (Thinking(text="hm", opaque="x", wire="anthropic"),)]
)
def test_a_message_that_says_nothing_is_still_a_message(wire: str, parts: Any) -> None:
    model = build(wire)
    messages = [model.encode(UserMessage("")), model.encode(AssistantMessage(parts))]
    body = msgspec.json.decode(model.body(Request("", (), messages)))
    assert len(body[model.messages_field]) == 2
    assert b'"(nothing)"' in messages[1]


def test_redacted_thinking_goes_back_as_it_came() -> None:
    model = build("anthropic")
    parts = (Thinking(opaque="redacted:AbC=", wire="anthropic"), Text(text="so"))
    message = msgspec.json.decode(model.encode(AssistantMessage(parts)))
    assert message["content"][0] == {"type": "redacted_thinking", "data": "AbC="}


def test_thinking_whose_text_was_withheld_goes_back_with_its_signature() -> None:
    model = build("anthropic")
    parts = (Thinking(opaque="c2ln", wire="anthropic"), Text(text="so"))
    message = msgspec.json.decode(model.encode(AssistantMessage(parts)))
    assert message["content"][0] == {"type": "thinking", "thinking": "", "signature": "c2ln"}


def test_a_signature_on_text_goes_back_to_gemini_behind_it() -> None:
    model = build("gemini")
    parts = (Text(text="so"), Thinking(opaque="c2ln", wire="gemini"))
    message = msgspec.json.decode(model.encode(AssistantMessage(parts)))
    assert message["parts"] == [{"text": "so"}, {"text": "", "thoughtSignature": "c2ln"}]


@pytest.mark.parametrize(("model", "is_signed"), [("gemini-3-pro", True), ("gemini-2.5-pro", False)])
def test_calls_of_another_provider_are_taken_by_models_that_check(model: str, is_signed: bool) -> None:
    call = CallAsked(call="c00001000", name="read", arguments="{}")
    message = msgspec.json.decode(build("gemini", model=model).encode(AssistantMessage((call, call))))
    assert ["thoughtSignature" in part for part in message["parts"]] == [is_signed, False]


@pytest.mark.parametrize(
    ("wire", "model", "effort", "expected"),
    [
        ("chat", "m", "high", {"reasoning_effort": "high"}),
        ("chat", "m", None, {}),
        ("responses", "gpt-5", "max", {"reasoning": {"summary": "auto", "effort": "xhigh"}}),
        ("responses", "gpt-4.1", "high", {"reasoning": None, "include": None}),
        (
            "anthropic",
            "claude-opus-5",
            "max",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "max"}},
        ),
        (
            "anthropic",
            "claude-sonnet-4-5-20250929",
            "high",
            {"thinking": {"type": "enabled", "budget_tokens": 16_000}, "output_config": None},
        ),
        ("anthropic", "claude-sonnet-4-5-20250929", None, {"thinking": None}),
        ("anthropic", "claude-3-5-haiku-latest", "high", {"thinking": None, "max_tokens": 8_192}),
        (
            "gemini",
            "gemini-3-pro",
            "low",
            {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "low"}}},
        ),
        (
            "gemini",
            "gemini-2.5-pro",
            "low",
            {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2_048}}},
        ),
        ("gemini", "gemini-2.0-flash", "low", {"generationConfig": None}),
    ],
)
def test_effort_is_said_in_the_words_of_each_model(
    wire: str, model: str, effort: Any, expected: dict[str, Any]
) -> None:
    built = build(wire, model=model)
    body = msgspec.json.decode(built.body(Request("s", (), [], effort=effort)))
    assert {name: body.get(name) for name in expected} == expected


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("case", CASES)
def test_a_reply_that_comes_whole_is_a_stream_of_one(wire: str, case: str) -> None:
    scripted, expected, stop = CASES[case]
    scripted = msgspec.structs.replace(scripted, fault=Fault(kind="whole"))
    [heard] = ask(wire, Script((scripted,)), [UserMessage("hi")], system="s", tools=())
    assert [plain(part) for part in heard.parts] == expected
    assert heard.finished == ReplyFinished(stop, USAGE)  # type: ignore[arg-type]

"""Faults of a real HTTP server, through the one retry policy: how many requests, which events, what ending."""

import asyncio
from typing import Any

import msgspec
import pytest

from mainspring import errors
from mainspring.events import CallAsked, Text, TextDelta, Thinking, ToolSpec
from mainspring.models import (
    AssistantMessage,
    ReplyFinished,
    Request,
    ResultsMessage,
    Retrying,
    StreamItem,
    ToolResult,
    UserMessage,
)
from mainspring.models.reply import ReplyBuilder
from mainspring.models.retry import Retried, RetryPolicy
from mainspring.models.scripted import Fault, Script, ScriptedCall, ScriptedReply
from mainspring.models.wires.transport import TransportLimits
from mainspring.testing.server import ModelServer, SeenRequest
from tests.models.every_wire import NAMES, WIRES, build

REPLY = ScriptedReply(text="hello there", calls=(ScriptedCall("read", {"path": "a"}),), chunk_size=2)
TOOL = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})


class Told(msgspec.Struct):
    """What came of a request: its items, its error, what the server saw, and what was slept."""

    items: list[StreamItem]
    error: errors.ModelError | None
    seen: list[SeenRequest]
    slept: list[float]

    @property
    def retried(self) -> list[tuple[int, str, float]]:
        return [
            (item.attempt, item.error, item.retry_in_s) for item in self.items if isinstance(item, Retrying)
        ]

    @property
    def text(self) -> str:
        reply = ReplyBuilder()
        for item in self.items:
            if isinstance(item, Retrying):
                reply.clear()
            elif not isinstance(item, ReplyFinished):
                reply.add(item)
        return "".join(part.text for part in reply.parts(1) if isinstance(part, Text))

    @property
    def bodies(self) -> list[Any]:
        return [seen.json() for seen in self.seen]


def tell(
    *faults: Fault,
    wire: str = "chat",
    model: str = "",
    messages: Any = (),
    times: int = 1,
    policy: RetryPolicy | None = None,
    bounds: TransportLimits | None = None,
    tick_s: float = 0.0,
    **fields: Any,
) -> Told:
    slept: list[float] = []
    now = [0.0]

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    def clock() -> float:
        now[0] += tick_s
        return now[0]

    async def run() -> Told:
        items: list[StreamItem] = []
        found: errors.ModelError | None = None
        async with ModelServer(Script((REPLY, REPLY, REPLY), faults)) as server:
            inner = build(
                wire, server, model=model, provider="Test", **({"bounds": bounds} if bounds else {})
            )
            retried = Retried(
                inner, heal=inner.heal, policy=policy, sleep=sleep, clock=clock, chance=lambda: 0.0
            )
            encoded = [inner.encode(message) for message in messages]
            for _ in range(times):
                try:
                    async for item in retried.stream(Request("s", (TOOL,), encoded, **fields)):
                        items.append(item)  # noqa: PERF401
                except errors.ModelError as error:
                    found = error
            await retried.close()
            return Told(items, found, server.seen, slept)

    return asyncio.run(run())


def status(code: int, times: int = 9, **fields: Any) -> Fault:
    return Fault(kind="status", status=code, times=times, **fields)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (status(429), "RateLimited"),
        (status(500), "Overloaded"),
        (status(502, body="<html>bad gateway</html>"), "Overloaded"),
        (status(503), "Overloaded"),
        (status(529), "Overloaded"),
        (Fault(kind="drop", times=9), "NetworkFailed"),
        (Fault(kind="drop", at="text", times=9), "NetworkFailed"),
        (Fault(kind="drop", at="call", times=9), "NetworkFailed"),
        (Fault(kind="reset", times=9), "NetworkFailed"),
        (Fault(kind="garbage", times=9), "NetworkFailed"),
        (Fault(kind="malformed", times=9), "NetworkFailed"),
        (Fault(kind="error_in_stream", times=9), "Overloaded"),
    ],
    ids=lambda value: f"{value.kind}-{value.status}-{value.at}" if isinstance(value, Fault) else "",
)
def test_what_may_pass_is_tried_four_times_and_no_more(wire: str, fault: Fault, name: str) -> None:
    told = tell(fault, wire=wire)
    waits = (10.0, 30.0, 60.0) if name == "RateLimited" else (2.0, 8.0, 20.0)
    assert len(told.seen) == 4
    assert told.retried == [(attempt, name, wait) for attempt, wait in enumerate(waits, start=1)]
    assert told.slept == list(waits)
    assert type(told.error).__name__ == name


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (status(400), "BadRequest"),
        (status(401), "AuthFailed"),
        (status(402), "NoCredit"),
        (status(404), "ModelUnknown"),
        (Fault(kind="overflow", times=9), "ContextOverflow"),
        (Fault(kind="overflow", provider="anthropic", times=9), "ContextOverflow"),
        (Fault(kind="overflow", provider="gemini", times=9), "ContextOverflow"),
        (Fault(kind="overflow", provider="llama.cpp", times=9), "ContextOverflow"),
    ],
    ids=lambda value: f"{value.kind}-{value.status}-{value.provider}" if isinstance(value, Fault) else "",
)
def test_what_will_not_pass_is_one_request(wire: str, fault: Fault, name: str) -> None:
    told = tell(fault, wire=wire)
    assert len(told.seen) == 1
    assert told.retried == []
    assert type(told.error).__name__ == name


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("at", ["text", "call"])
def test_what_a_dropped_stream_said_is_kept_out(wire: str, at: Any) -> None:
    told = tell(Fault(kind="drop", at=at), wire=wire)
    assert any(isinstance(item, TextDelta) for item in told.items[:3])
    assert told.text == "hello there"
    assert len(told.seen) == 2
    assert told.error is None


@pytest.mark.parametrize("kind", ["gzip", "whole"])
def test_unusual_replies_are_no_failures(kind: Any) -> None:
    told = tell(Fault(kind=kind))
    assert (told.text, len(told.seen)) == ("hello there", 1)


def test_a_kept_connection_that_was_reset_is_replaced() -> None:
    told = tell(Fault(kind="slow", seconds=0.0), Fault(kind="reset"), times=2)
    assert [seen.connection for seen in told.seen] == [1, 1, 2]
    assert told.error is None


def test_a_slow_first_byte_is_a_timeout_and_an_endless_stream_is_bounded() -> None:
    told = tell(Fault(kind="slow", seconds=60, times=9), bounds=TransportLimits(silence_s=0.5))
    assert (len(told.seen), type(told.error)) == (4, errors.ModelTimeout)
    told = tell(Fault(kind="endless", times=9), bounds=TransportLimits(max_bytes=50_000))
    assert (len(told.seen), type(told.error)) == (4, errors.NetworkFailed)


def test_retry_after_is_obeyed() -> None:
    told = tell(status(429, times=2, retry_after=7))
    assert told.slept == [7.0, 7.0]
    assert told.text == "hello there"


def test_a_wait_above_a_minute_is_raised_with_its_length() -> None:
    told = tell(status(429, retry_after=3600))
    assert len(told.seen) == 1
    assert told.slept == []
    assert isinstance(told.error, errors.RateLimited)
    assert told.error.retry_after_s == 3600


def test_total_time_is_bounded() -> None:
    told = tell(status(503), tick_s=900.0)
    assert len(told.seen) == 2
    assert isinstance(told.error, errors.Overloaded)


def test_waits_are_jittered_downwards() -> None:
    retried = Retried(build("chat"), chance=lambda: 1.0)
    assert retried._wait_s(errors.Overloaded("x"), 1, 0.0) == 1.5


def refusal(message: str, *, code: str | None = None, param: str | None = None, status: int = 400) -> Fault:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
    return Fault(kind="status", status=status, body=body)


def claude(message: str) -> Fault:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return Fault(kind="status", status=400, body=body)


HEALED = {
    "effort of chat": (
        refusal(
            "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
            code="unsupported_parameter",
            param="reasoning_effort",
        ),
        "chat",
        {"effort": "high"},
        ["reasoning_effort"],
    ),
    "effort without a parameter": (
        refusal("Unsupported value: 'reasoning_effort' does not support 'high' with this model."),
        "chat",
        {"effort": "high"},
        ["reasoning_effort"],
    ),
    "effort of responses": (
        refusal("Unsupported parameter", code="unsupported_parameter", param="reasoning.effort"),
        "responses",
        {"effort": "high"},
        ["reasoning", "effort"],
    ),
    "summary of responses": (
        refusal("Your organization must be verified", code="unsupported_value", param="reasoning.summary"),
        "responses",
        {},
        ["reasoning", "summary"],
    ),
    "encrypted reasoning of responses": (
        refusal("Encrypted content is not supported with this model.", param="include"),
        "responses",
        {},
        ["include"],
    ),
    "effort of anthropic": (
        claude("output_config.effort: Extra inputs are not permitted"),
        "anthropic",
        {"effort": "high"},
        ["output_config"],
    ),
    "thinking of anthropic": (
        claude("adaptive thinking is not supported on this model"),
        "anthropic",
        {},
        ["thinking"],
    ),
    "thinking of gemini": (
        Fault(
            kind="status",
            status=400,
            body={
                "error": {
                    "code": 400,
                    "message": "Thinking level is not supported for this model.",
                    "status": "INVALID_ARGUMENT",
                }
            },
        ),
        "gemini",
        {"effort": "high"},
        ["generationConfig"],
    ),
    "usage in the stream": (
        refusal("Unrecognized request argument supplied", code="unknown_parameter", param="stream_options"),
        "chat",
        {},
        ["stream_options"],
    ),
    "usage in the stream, at a server of FastAPI": (
        Fault(
            kind="status",
            status=422,
            body={
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options"],
                        "msg": "Extra inputs are not permitted",
                        "input": {"include_usage": True},
                    }
                ]
            },
        ),
        "chat",
        {},
        ["stream_options"],
    ),
    "tools at Ollama": (refusal("registry/library/gemma:2b does not support tools"), "chat", {}, ["tools"]),
    "tools at OpenRouter": (
        refusal("No endpoints found that support tool use. To learn more, read on.", status=404),
        "chat",
        {},
        ["tools"],
    ),
}


def found(body: Any, path: list[str]) -> bool:
    for key in path:
        if key not in body:
            return False
        body = body[key]
    return True


@pytest.mark.parametrize("case", HEALED)
def test_what_a_model_does_not_take_is_left_out_once_and_for_all(case: str) -> None:
    fault, wire, fields, path = HEALED[case]
    told = tell(fault, wire=wire, times=2, **fields)
    assert told.error is None
    assert [found(body, path) for body in told.bodies] == [True, False, False]
    assert told.retried == [(1, "BadRequest", 0.0)]


def test_the_older_name_of_a_limit_is_replaced() -> None:
    fault = refusal(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
        code="unsupported_parameter",
        param="max_tokens",
    )
    told = tell(fault, max_output_tokens=50)
    assert [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in told.bodies] == [
        (50, None),
        (None, 50),
    ]


def test_the_highest_effort_falls_back_to_high_before_it_is_left_out() -> None:
    fault = refusal("Unsupported value: 'xhigh'", code="unsupported_value", param="reasoning.effort")
    told = tell(fault, fault, wire="responses", effort="max")
    assert [body["reasoning"].get("effort") for body in told.bodies] == ["xhigh", "high", None]


def test_a_model_without_tools_is_told_of_them_in_words() -> None:
    told = tell(HEALED["tools at Ollama"][0])
    assert '"name": "<tool>"' in told.bodies[1]["messages"][0]["content"]


def test_a_server_that_refuses_one_field_after_the_other_is_lived_with() -> None:
    names = ("stream_options", "temperature", "seed")
    unknown = [refusal(f"Unrecognized request argument supplied: {name}") for name in names]
    fields = {"temperature": 0.5, "seed": 1, "effort": "low", "max_output_tokens": 50}
    told = tell(
        *unknown, HEALED["effort of chat"][0], HEALED["tools at Ollama"][0], status(500, times=1), **fields
    )
    assert told.error is None
    assert len(told.seen) == 7
    assert not {*names, "reasoning_effort", "tools"} & set(told.bodies[-1])
    assert told.slept[:5] == [0.0] * 5, "what was healed is tried again at once"
    assert len(told.slept) == 6


def test_the_same_refusal_is_healed_only_once() -> None:
    fault = msgspec.structs.replace(HEALED["effort of chat"][0], times=9)
    told = tell(fault, effort="low")
    assert len(told.seen) == 2
    assert isinstance(told.error, errors.BadRequest)


def test_a_parameter_that_was_never_sent_is_not_healed() -> None:
    told = tell(refusal("Unsupported", code="unsupported_parameter", param="temperature"))
    assert len(told.seen) == 1


def test_an_order_that_is_refused_is_mended_once_and_for_all() -> None:
    body = {"object": "error", "message": "Unexpected role 'user' after role 'tool'", "code": "3230"}
    call = CallAsked(call="c00001000", name="read", arguments="{}")
    results = ResultsMessage((ToolResult("c00001000", "read", "ok"),))
    messages = [UserMessage("hi"), AssistantMessage((call,)), results, UserMessage("and then?")]
    told = tell(Fault(kind="status", status=400, body=body), messages=messages, times=2)
    roles = [[message["role"] for message in body["messages"][3:]] for body in told.bodies]
    assert roles == [["tool", "user"], ["tool", "assistant", "user"], ["tool", "assistant", "user"]]


STALE = {
    "responses": refusal(
        "The encrypted content gAAA could not be verified.", code="invalid_encrypted_content"
    ),
    "anthropic": claude("messages.1.content.0: Invalid `signature` in `thinking` block"),
    "gemini": Fault(
        kind="status",
        status=400,
        body={"error": {"code": 400, "message": "Invalid thought signature.", "status": "INVALID_ARGUMENT"}},
    ),
}


@pytest.mark.parametrize("wire", STALE)
def test_reasoning_that_is_no_longer_accepted_is_taken_out_once(wire: str) -> None:
    opaque = '{"type":"reasoning","encrypted_content":"stale"}' if wire == "responses" else "stale"
    call = CallAsked(
        call="c00001000", name="read", arguments="{}", opaque="stale" if wire == "gemini" else ""
    )
    parts = (Thinking(text="hm", opaque=opaque, wire=wire), Text(text="so"), call)
    told = tell(STALE[wire], wire=wire, messages=[UserMessage("hi"), AssistantMessage(parts)], times=2)
    assert told.error is None
    assert [b"stale" in seen.body for seen in told.seen] == [True, False, False]
    assert told.seen[1].body == told.seen[2].body
    assert all(NAMES[wire] in seen.path or NAMES[wire].encode() in seen.body for seen in told.seen)

"""What every implementation of the `Model` port must do, as checks that any test runner can run.

Give each check a `ModelStage`: it opens a model that plays the replies it is given, in order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mainspring.events import CallAsked, Part, Text, Thinking, ToolSpec, Usage
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Message,
    Model,
    ReplyFinished,
    Request,
    ResultsMessage,
    Retrying,
    ToolResult,
    UserMessage,
)
from mainspring.models.reply import ReplyBuilder
from mainspring.models.scripted import ScriptedCall, ScriptedReply

_TOOL = ToolSpec(name="read", description="Reads a file.", parameters={"type": "object", "properties": {}})


class ModelStage(Protocol):
    def open(self, replies: Sequence[ScriptedReply]) -> AbstractAsyncContextManager[Model]: ...


async def heard(model: Model, *messages: Message) -> tuple[tuple[Part, ...], ReplyFinished]:
    """The parts of a reply, and how it ended; what an attempt said before it failed is left out."""
    reply = ReplyBuilder()
    finished: ReplyFinished | None = None
    encoded = [model.encode(message) for message in messages]
    async for item in model.stream(Request("Be good.", (_TOOL,), encoded)):
        assert finished is None, "nothing follows the last item"
        match item:
            case ReplyFinished():
                finished = item
            case Retrying():
                reply.clear()
            case _:
                reply.add(item)
    assert finished is not None, "a stream ends with Finished, or raises"
    return reply.parts(1), finished


async def text_comes_whole_with_its_usage(stage: ModelStage) -> None:
    usage = Usage(input_tokens=100, cached_tokens=60, output_tokens=20)
    async with stage.open([ScriptedReply(text="größer 😀", usage=usage)]) as model:
        parts, finished = await heard(model, UserMessage("hi"))
    assert parts == (Text(text="größer 😀"),)
    assert finished == ReplyFinished("end", usage)


async def thinking_comes_before_what_was_thought_about(stage: ModelStage) -> None:
    async with stage.open([ScriptedReply(text="So.", thinking="Let me see.")]) as model:
        parts, _ = await heard(model, UserMessage("hi"))
    assert isinstance(parts[0], Thinking)
    assert parts[0].text == "Let me see."
    assert parts[1] == Text(text="So.")


async def calls_come_in_the_order_asked(stage: ModelStage) -> None:
    calls = (ScriptedCall("read", {"path": "a"}), ScriptedCall("list"), ScriptedCall("read", {"path": "b"}))
    async with stage.open([ScriptedReply(calls=calls)]) as model:
        parts, finished = await heard(model, UserMessage("hi"))
    asked = [(part.name, part.arguments or "{}") for part in parts if isinstance(part, CallAsked)]
    assert asked == [("read", '{"path":"a"}'), ("list", "{}"), ("read", '{"path":"b"}')]
    assert finished.stop == "calls"
    assert len({part.call for part in parts if isinstance(part, CallAsked)}) == 3


async def a_reply_goes_back_into_the_next_request(stage: ModelStage) -> None:
    replies = [
        ScriptedReply(thinking="Hm.", calls=(ScriptedCall("read", {"path": "a"}),)),
        ScriptedReply("Done."),
    ]
    async with stage.open(replies) as model:
        first, _ = await heard(model, UserMessage("hi"))
        call = next(part for part in first if isinstance(part, CallAsked))
        results = ResultsMessage((ToolResult(call.call, "read", "what it says"),))
        second, _ = await heard(model, UserMessage("hi"), AssistantMessage(first), results)
    assert second == (Text(text="Done."),)


async def every_message_can_be_sent(stage: ModelStage) -> None:
    files = (
        Attachment("image/png", b"\x89PNG", "a.png"),
        Attachment("application/pdf", b"%PDF"),
        Attachment("text/plain", b"words"),
        Attachment("application/octet-stream", b"\x00\xff"),
    )
    calls = tuple(
        CallAsked(call=f"c0000100{index}", name="read", arguments=text)
        for index, text in enumerate(["{}", "", "[]", '{"half": ', "null"])
    )
    results = tuple(ToolResult(call.call, "read", "", is_error=True, attachments=files) for call in calls)
    thoughts = tuple(Thinking(text="hm", opaque="x", wire="another") for _ in range(2))
    messages = (
        UserMessage(""),
        UserMessage("\u2028 \x00 😀", files),
        AssistantMessage((*thoughts, Text(text="so"), *calls)),
        ResultsMessage(results),
    )
    async with stage.open([ScriptedReply("one"), ScriptedReply("two")]) as model:
        parts, _ = await heard(model, *messages)
    assert parts == (Text(text="two"),)


async def the_same_message_always_has_the_same_bytes(stage: ModelStage) -> None:
    call = CallAsked(call="c00001000", name="read", arguments='{"b": 1, "a": 2}')
    messages: list[Message] = [
        UserMessage("hi", (Attachment("image/png", b"\x89PNG"),)),
        AssistantMessage((Text(text="so"), call)),
        ResultsMessage((ToolResult("c00001000", "read", "ok"),)),
    ]
    async with stage.open([]) as model, stage.open([]) as other:
        for message in messages:
            assert model.encode(message) == model.encode(message) == other.encode(message)


async def a_stream_that_is_left_leaves_the_model_usable(stage: ModelStage) -> None:
    async with stage.open([ScriptedReply("one two three")]) as model:
        stream = model.stream(Request("", (), [model.encode(UserMessage("hi"))]))
        await anext(aiter(stream))
        await stream.aclose()
        parts, _ = await heard(model, UserMessage("hi"))
    assert parts == (Text(text="one two three"),)


async def a_model_can_be_closed_twice(stage: ModelStage) -> None:
    async with stage.open([ScriptedReply("one")]) as model:
        await heard(model, UserMessage("hi"))
        await model.close()
        await model.close()


async def a_model_says_what_it_is(stage: ModelStage) -> None:
    async with stage.open([]) as model:
        assert model.name
        assert model.context_tokens is None or model.context_tokens > 0
        assert model.price is None or model.price.cost_usd(Usage(input_tokens=1, output_tokens=1)) >= 0


CHECKS: tuple[Callable[[ModelStage], Awaitable[None]], ...] = (
    text_comes_whole_with_its_usage,
    thinking_comes_before_what_was_thought_about,
    calls_come_in_the_order_asked,
    a_reply_goes_back_into_the_next_request,
    every_message_can_be_sent,
    the_same_message_always_has_the_same_bytes,
    a_stream_that_is_left_leaves_the_model_usable,
    a_model_can_be_closed_twice,
    a_model_says_what_it_is,
)

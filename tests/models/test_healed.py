"""What a model was found not to take is not sent to it again, by any process."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import BadRequest
from mainspring.events import Text, Thinking, ToolSpec
from mainspring.models import AssistantMessage, ReplyFinished, Request, UserMessage
from mainspring.models.capabilities import Capabilities
from mainspring.models.retry import Retried
from mainspring.models.scripted import Fault, Script, ScriptedReply
from mainspring.testing.server import ModelServer
from tests.models.every_wire import build

TOOL = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})
REPLY = ScriptedReply(text="hello")
STALE = Fault(
    kind="status",
    status=400,
    body={
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
        },
    },
)
NO_TOOLS = Fault(
    kind="status", status=400, body={"error": {"message": "registry/library/gemma:2b does not support tools"}}
)
SIGNED = AssistantMessage((Thinking(text="Hm.", wire="anthropic", opaque="c2ln"), Text("a")))


async def ask(wire: str, server: ModelServer, healed: Capabilities, messages: Any) -> None:
    """Asks as a new process does, and leaves as the loop does, when the reply is whole."""
    inner = build(wire, server, healed=healed)
    model = Retried(inner, heal=inner.heal, keep=inner.keep)
    encoded = [inner.encode(message) for message in messages]
    try:
        async with aclosing(model.stream(Request("s", (TOOL,), encoded))) as items:
            async for item in items:
                if isinstance(item, ReplyFinished):
                    break
    finally:
        await model.close()


def test_a_new_process_does_not_repeat_what_was_refused(tmp_path: Path) -> None:
    async def run() -> list[Any]:
        healed = Capabilities(tmp_path / "home" / "healed.json")
        async with ModelServer(Script((REPLY,) * 3, (NO_TOOLS,))) as server:
            for _ in range(2):
                await ask("chat", server, healed, [UserMessage("hi")])
            return [seen.json() for seen in server.seen]

    assert ["tools" in body for body in asyncio.run(run())] == [True, False, False]


def test_signatures_that_were_refused_are_left_out_by_the_next_process_and_newer_ones_are_not(
    tmp_path: Path,
) -> None:
    said = [UserMessage("hi"), SIGNED, UserMessage("and?")]
    more = [*said, SIGNED, UserMessage("and now?")]

    async def run() -> list[Any]:
        healed = Capabilities(tmp_path / "healed.json")
        async with ModelServer(Script((REPLY,) * 4, (STALE,))) as server:
            await ask("anthropic", server, healed, said)
            await ask("anthropic", server, healed, more)
            await ask("anthropic", server, healed, [UserMessage("another session"), SIGNED, UserMessage("x")])
            return [seen.json()["messages"] for seen in server.seen]

    refused, mended, resumed, other = asyncio.run(run())
    assert "thinking" in str(refused)
    assert "thinking" not in str(mended)
    assert "thinking" not in str(resumed[:3])
    assert "thinking" in str(resumed[3])
    assert "thinking" in str(other)


def test_what_did_not_help_is_not_remembered(tmp_path: Path) -> None:
    async def run() -> None:
        healed = Capabilities(tmp_path / "healed.json")
        twice = Fault(kind="status", status=400, body=NO_TOOLS.body, times=2)
        async with ModelServer(Script((REPLY,), (twice,))) as server:
            with pytest.raises(BadRequest, match="tools"):
                await ask("chat", server, healed, [UserMessage("hi")])

    asyncio.run(run())
    assert not (tmp_path / "healed.json").exists()


def test_it_is_forgotten_after_a_week_and_a_broken_file_is_as_good_as_none(tmp_path: Path) -> None:
    file = tmp_path / "healed.json"
    Capabilities(file, now=lambda: 0.0).keep("m", {"tools"})
    assert Capabilities(file, now=lambda: 6 * 86400.0).known("m") == {"tools"}
    assert Capabilities(file, now=lambda: 8 * 86400.0).known("m") == set()
    file.write_bytes(b"\xff")
    assert Capabilities(file).known("m") == set()

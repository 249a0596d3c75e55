"""The four wires, side by side, for tests that hold for all of them."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app import build as app
from mainspring.events import Media, Part
from mainspring.models import Message, ReplyFinished, Request
from mainspring.models.reply import ReplyBuilder
from mainspring.models.retry import Retried, RetryPolicy
from mainspring.models.scripted import Fault, Script, ScriptedReply
from mainspring.models.wires.anthropic import AnthropicModel
from mainspring.models.wires.chat import ChatModel
from mainspring.models.wires.gemini import GeminiModel
from mainspring.models.wires.responses import ResponsesModel
from mainspring.models.wires.wire import Wire
from mainspring.settings import load_config
from mainspring.testing.dialects.anthropic import Anthropic
from mainspring.testing.dialects.chat import Chat
from mainspring.testing.dialects.gemini import Gemini
from mainspring.testing.dialects.responses import Responses
from mainspring.testing.server import ModelServer, SeenRequest

NAMES = {
    "chat": "m",
    "responses": "gpt-5",
    "anthropic": "claude-opus-5",
    "gemini": "gemini-3-pro",
}
WIRES = tuple(NAMES)
PNG64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PNG = b64decode(PNG64)
"""A whole image of one pixel."""

DIALECTS = {"chat": Chat(), "responses": Responses(), "anthropic": Anthropic(), "gemini": Gemini()}


def build(wire: str, server: ModelServer | None = None, model: str = "", **options: Any) -> Wire:
    address = server.address if server else "http://127.0.0.1:9"
    name = model or NAMES[wire]
    match wire:
        case "chat":
            return ChatModel(f"test/{name}", f"{address}/v1", "key", name, **options)
        case "responses":
            return ResponsesModel(f"test/{name}", f"{address}/v1", "key", name, **options)
        case "anthropic":
            return AnthropicModel(f"test/{name}", address, "key", name, **options)
        case _:
            return GeminiModel(f"test/{name}", f"{address}/v1beta", "key", name, **options)


class Wired:
    """A session over the scripted server, turn by turn, on whichever wire; `seen` is what the last turn sent.
    Each turn is a process of its own, as far as the session can tell."""

    def __init__(self, folder: Path, *replies: ScriptedReply, faults: Sequence[Fault] = ()) -> None:
        self.script = Script(replies, tuple(faults))
        self.workspace = folder / "work"
        self.workspace.mkdir()
        settings = {"MAINSPRING_HOME": str(folder / "home"), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
        self.config = load_config(settings)
        self.session = ""
        self.seen: list[SeenRequest] = []

    def run(self, wire: str, text: str, *, name: str = "", attach: str = "", **options: Any) -> list[Any]:
        """The events of one turn."""

        async def turn() -> list[Any]:
            async with ModelServer(self.script) as server:
                inner = build(wire, server, name)
                model = Retried(inner, heal=inner.heal, keep=inner.keep, policy=RetryPolicy(waits_s=(0.0,)))
                opened = app.open(
                    self.workspace,
                    session=self.session,
                    model=model,
                    config=self.config,
                    sandbox="none",
                    mode="auto",
                    **options,
                )
                async with opened as session:
                    self.session = session.id
                    media: list[Media] = []
                    if attach:
                        data = (self.workspace / attach).read_bytes()
                        media = [await session.attach(data, "image/png", attach)]
                    events = [item.event async for item in session.watch(text, media)]
                self.seen = server.seen
            return events

        return asyncio.run(turn())

    @staticmethod
    def without_faults(script: Script) -> Script:
        return msgspec.structs.replace(script, faults=())


class Heard(msgspec.Struct):
    """What one request gave, and what the model saw of it."""

    parts: tuple[Part, ...]
    finished: ReplyFinished
    seen: SeenRequest

    @property
    def body(self) -> Any:
        return self.seen.json()


def ask(wire: str, script: Script, *histories: Sequence[Message], **fields: Any) -> list[Heard]:
    """One request per history, over one model."""
    options = fields.pop("options", {})

    async def run() -> list[Heard]:
        heard: list[Heard] = []
        async with ModelServer(script) as server:
            model = build(wire, server, **options)
            for step, history in enumerate(histories, start=1):
                messages = [model.encode(message) for message in history]
                reply, finished = ReplyBuilder(), None
                async for item in model.stream(Request(messages=messages, **fields)):
                    if isinstance(item, ReplyFinished):
                        finished = item
                    else:
                        reply.add(item)  # type: ignore[arg-type]
                assert finished is not None
                heard.append(Heard(reply.parts(step), finished, server.seen[-1]))
            await model.close()
        return heard

    return asyncio.run(run())

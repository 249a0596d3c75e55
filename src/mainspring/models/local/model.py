"""The model in a GGUF file, served by a process of ours and spoken to over the chat wire.

`start` loads it, learns how much it takes and whether it was taught to make calls. One that was not is held
to a schema, so that its calls always parse. The server is started again when it has died.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

import msgspec

from mainspring.errors import MainspringError, ModelError, UsageError
from mainspring.events import TextDelta
from mainspring.models import Attachment, Message, Price, ReplyFinished, Request, Retrying, StreamItem
from mainspring.models.local import LocalAnswer, LocalSettings, actions
from mainspring.models.probe import probe_server
from mainspring.models.providers import ChatQuirks
from mainspring.models.rescue import rescued
from mainspring.models.structured import answered, with_answer_tool
from mainspring.models.wires.chat import ChatModel
from mainspring.system import usable_cores

MODULE = "mainspring.models.local.serve"
_MAX_ACTION_TOKENS = 1024
_TOLD_CHARACTERS = 400
# Small models repeat themselves for ever; a repeated run of this many tokens becomes unlikely.
_UNLOOPED = {"dry_multiplier": 0.8, "dry_allowed_length": 8, "dry_penalty_last_n": 512}


class Server(Protocol):
    """The process that holds the model."""

    @property
    def answer(self) -> bytes: ...

    @property
    def is_alive(self) -> bool: ...

    def log_tail(self) -> str: ...

    async def close(self) -> None: ...


StartServer = Callable[[bytes], Awaitable[Server]]
"""Starts `MODULE` with a line, and gives it when it has answered; raises a `MainspringError`."""


class LocalModel:
    def __init__(self, name: str, path: Path, start_server: StartServer, *, context_tokens: int) -> None:
        self.name = name
        self.price: Price | None = Price()
        self.context_tokens: int | None = None
        self._path = path
        self._start_server = start_server
        self._wanted_tokens = context_tokens
        self._starting = asyncio.Lock()
        self._server: Server | None = None
        self._chat = ChatModel(name, "http://127.0.0.1", provider="The local model", is_local=True)
        self._has_tools = False

    async def start(self) -> None:
        """Loads the model, unless it is loaded. Takes seconds; holds up nothing else."""
        async with self._starting:
            if self._server is not None and self._server.is_alive:
                return
            await self._let_go()
            await self._load()

    def encode(self, message: Message) -> bytes:
        return self._chat.encode(message) if self._has_tools else actions.encode(message)

    def media_problem(self, _attachment: Attachment, /) -> str:
        return ""

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        try:
            await self.start()
        except ModelError:
            raise
        except MainspringError as error:
            raise ModelError(error.message, remedy=error.remedy) from error
        if self._has_tools:
            known = frozenset(tool.name for tool in request.tools)
            items = rescued(self._chat.stream(request), known, is_tagged_only=request.schema is not None)
        elif request.tools and request.schema is not None:
            items = answered(_acted(self._chat.stream(constrained(with_answer_tool(request)))))
        elif request.tools:
            items = _acted(self._chat.stream(constrained(request)))
        else:
            items = self._chat.stream(request)
        async with aclosing(items):
            async for item in items:
                yield item

    async def close(self) -> None:
        await self._let_go()

    async def _load(self) -> None:
        key = secrets.token_urlsafe(24)
        settings = LocalSettings(
            path=str(self._path), key=key, threads=threads(), context_tokens=self._wanted_tokens
        )
        server = await self._start_server(msgspec.json.encode(settings))
        try:
            answer = msgspec.json.decode(server.answer, type=LocalAnswer)
            if not answer.url:
                raise UsageError(
                    f"{self._path.name} could not be loaded: {answer.error}.",
                    remedy=f"llama.cpp said: {server.log_tail()[-_TOLD_CHARACTERS:]}",
                )
            (served, *_) = await probe_server(answer.url, key)
            self.context_tokens = served.context_tokens
            self._has_tools = bool(served.has_tools)
            self._chat = ChatModel(
                self.name,
                f"{answer.url}/v1",
                key,
                served.id,
                provider="The local model",
                is_local=True,
                quirks=ChatQuirks(effort="", more={} if self._has_tools else _UNLOOPED),
                context_tokens=self.context_tokens,
                price=self.price,
            )
        except BaseException:
            await server.close()
            raise
        self._server = server

    async def _let_go(self) -> None:
        server, self._server = self._server, None
        await self._chat.close()
        if server is not None:
            await server.close()


def threads() -> int:
    """One fewer than the cores that we may use: with all of them a busy machine slows to a crawl."""
    return max(1, usable_cores() - 1)


def constrained(request: Request) -> Request:
    """The request for a model that does not know of calls."""
    allowed = request.max_output_tokens
    return msgspec.structs.replace(
        request,
        system=actions.described(request.system, request.tools, must_call=request.must_call),
        tools=(),
        must_call=False,
        schema=actions.schema(request.tools, must_call=request.must_call),
        max_output_tokens=_MAX_ACTION_TOKENS if allowed is None else min(allowed, _MAX_ACTION_TOKENS),
    )


async def _acted(items: AsyncGenerator[StreamItem]) -> AsyncGenerator[StreamItem]:
    reading = actions.Actions()
    async with aclosing(items):
        async for item in items:
            match item:
                case TextDelta():
                    for delta in reading.feed(item.text):
                        yield delta
                case Retrying():
                    reading = actions.Actions()
                    yield item
                case ReplyFinished():
                    for delta in reading.end():
                        yield delta
                    is_call = reading.has_call and item.stop == "end"
                    yield msgspec.structs.replace(item, stop="calls") if is_call else item
                case _:
                    yield item

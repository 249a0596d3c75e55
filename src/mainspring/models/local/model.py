"""The model in a GGUF file, served by a process of ours and spoken to over the chat wire.

`start` loads it, learns how much it takes and whether it was taught to make calls. One that was not, or that
is small, is held to a schema, so that its calls always parse. The server is started again when it has died.
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
from mainspring.models import Attachment, Message, Price, Request, StreamItem
from mainspring.models.local import LocalAnswer, LocalSettings
from mainspring.models.own import ToolForm
from mainspring.models.probe import probe_server
from mainspring.models.protocol import ToolProtocol
from mainspring.models.providers import ChatQuirks
from mainspring.models.served import ServedModel
from mainspring.models.wires.chat import ChatModel
from mainspring.system import usable_cores

MODULE = "mainspring.models.local.serve"
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
        self.path = path
        self._start_server = start_server
        self._wanted_tokens = context_tokens
        self._starting = asyncio.Lock()
        self._server: Server | None = None
        self._form: ToolForm | None = None
        self._thinking_tokens: int | None = None
        self.served = ServedModel(id=path.name)
        chat = ChatModel(name, "http://127.0.0.1", provider="The local model", is_local=True)
        self._asked = ToolProtocol(chat, "schema")

    async def start(self) -> None:
        """Loads the model, unless it is loaded. Takes seconds; holds up nothing else."""
        async with self._starting:
            if self._server is not None and self._server.is_alive:
                return
            await self._let_go()
            await self._load()

    def use(self, form: ToolForm, thinking_tokens: int | None = None) -> None:
        """Tells it of tools in this form, whatever it was taught, and lets it think so long."""
        self._form = self._asked.form = form
        self._thinking_tokens = self._asked.thinking_tokens = thinking_tokens

    @property
    def form(self) -> ToolForm:
        return self._asked.form

    @property
    def encode(self) -> Callable[[Message], bytes]:
        return self._asked.encode

    def media_problem(self, _attachment: Attachment, /) -> str:
        return ""

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        try:
            await self.start()
        except ModelError:
            raise
        except MainspringError as error:
            raise ModelError(error.message, remedy=error.remedy) from error
        items = self._asked.stream(request)
        async with aclosing(items):
            async for item in items:
                yield item

    async def close(self) -> None:
        await self._let_go()

    async def _load(self) -> None:
        key = secrets.token_urlsafe(24)
        settings = LocalSettings(
            path=str(self.path), key=key, threads=threads(), context_tokens=self._wanted_tokens
        )
        server = await self._start_server(msgspec.json.encode(settings))
        try:
            answer = msgspec.json.decode(server.answer, type=LocalAnswer)
            if not answer.url:
                raise UsageError(
                    f"{self.path.name} could not be loaded: {answer.error}.",
                    remedy=f"llama.cpp said: {server.log_tail()[-_TOLD_CHARACTERS:]}",
                )
            (served, *_) = await probe_server(answer.url, key)
            self.served, self.context_tokens = served, served.context_tokens
            form: ToolForm = self._form or ("native" if served.has_tools else "schema")
            chat = ChatModel(
                self.name,
                f"{answer.url}/v1",
                key,
                served.id,
                provider="The local model",
                is_local=True,
                quirks=ChatQuirks(effort="", more={} if served.has_tools else _UNLOOPED),
                context_tokens=self.context_tokens,
                price=self.price,
            )
            self._asked = ToolProtocol(chat, form)
            self._asked.thinking_tokens = self._thinking_tokens
        except BaseException:
            await server.close()
            raise
        self._server = server

    async def _let_go(self) -> None:
        server, self._server = self._server, None
        await self._asked.close()
        if server is not None:
            await server.close()


def threads() -> int:
    """One fewer than the cores that we may use: with all of them a busy machine slows to a crawl."""
    return max(1, usable_cores() - 1)

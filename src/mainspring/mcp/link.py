"""Our side of the broker: it is started when first needed, requests wait for their answers, and what servers
say unasked is told to whoever holds the link.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import msgspec

from mainspring.errors import SandboxError
from mainspring.mcp import wire
from mainspring.sandbox.companion import Companion, CompanionLink, open_companion

_MODULE = "mainspring.mcp.broker"
_PASSED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "LC_ALL", "HOME", "TMPDIR")
_DECODE = msgspec.json.Decoder(wire.FromBroker).decode
INSTALL = "Install it: pip install 'mainspring[mcp]'."

Unasked = wire.ServerProgress | wire.ServerAsks | wire.ServerLost | wire.OffersChanged | wire.ServerNoise


class McpFailed(Exception):
    """A request to a server failed; the message ends a sentence about it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class BrokerLink:
    """`on_unasked` hears what servers say without being asked, in order."""

    def __init__(self, environment: Mapping[str, str], on_unasked: Callable[[Unasked], None]) -> None:
        self._environment = {name: environment[name] for name in _PASSED if name in environment}
        self._on_unasked = on_unasked
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._opening = asyncio.Lock()
        self._companion: Companion | None = None
        self._line: CompanionLink | None = None
        self._reading: asyncio.Task[None] | None = None

    def reserve(self) -> int:
        """The number of a request that is about to be made."""
        return next(self._numbers)

    async def ask(self, message: wire.ToBroker, descriptors: Sequence[int] = ()) -> bytes:
        """The answer, as JSON; raises `McpFailed`. Cancelling it cancels the request."""
        line = await self._open()
        number = message.id or self.reserve()
        message = msgspec.structs.replace(message, id=number)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await line.send(msgspec.json.encode(message), descriptors)
            return await answer
        except (ConnectionError, asyncio.CancelledError) as error:
            if isinstance(error, ConnectionError):
                raise McpFailed("missing", self._gone()) from error
            await self.tell(wire.CancelRequest(id=number))
            raise
        finally:
            del self._waiting[number]

    async def tell(self, message: wire.ToBroker) -> None:
        """Says something that has no answer; a broker that is gone needs no telling."""
        if self._line is not None:
            try:
                await self._line.send(msgspec.json.encode(message))
            except ConnectionError:
                return

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._line is not None:
            self._line.close()
        if self._companion is not None:
            await self._companion.close()

    async def _open(self) -> CompanionLink:
        async with self._opening:
            if self._line is not None and self._companion is not None and self._companion.is_alive:
                return self._line
            if find_spec("mcp") is None:
                raise McpFailed("missing", f"the package mcp is not installed. {INSTALL}")
            await self.close()
            try:
                self._companion, self._line = await open_companion(_MODULE, environment=self._environment)
            except SandboxError as error:
                raise McpFailed("missing", error.message) from error
            self._reading = asyncio.create_task(self._read(self._line))
            return self._line

    async def _read(self, line: CompanionLink) -> None:
        while data := await line.reader.readline():
            message = _DECODE(data)
            match message:
                case wire.RequestDone() | wire.RequestRefused():
                    self._settle(message)
                case _:
                    self._on_unasked(message)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(McpFailed("missing", self._gone()))

    def _settle(self, message: wire.RequestDone | wire.RequestRefused) -> None:
        answer = self._waiting.get(message.id)
        if answer is None or answer.done():
            return
        if isinstance(message, wire.RequestDone):
            answer.set_result(bytes(message.result))
        else:
            answer.set_exception(McpFailed(message.reason, message.message))

    def _gone(self) -> str:
        tail = self._companion.log_tail().splitlines() if self._companion else []
        return f"the process that talks to servers ended: {tail[-1] if tail else 'it said nothing'}"

"""The wire of language servers (JSON-RPC with a header before each message), as a client sees it.

The other side may be anything: messages are bounded in size and number, what cannot be read ends the
conversation with a reason, and whoever waits for an answer then hears of it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from mainspring.checks import NotChecked

MAX_MESSAGE = 32 << 20
_MAX_UNASKED = 64 << 20
_MAX_HEADERS = 16
_METHOD_NOT_FOUND = -32601
_MAX_SAID = 200
_NO_MESSAGE = "it sent what is no message"


class LspRefused(NotChecked):
    """The server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"it answered with an error: {message}")
        self.code = code


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Ended(Exception):
    """Why nothing more can be read."""


class LspConnection:
    """`on_request` answers what the server asks, or raises `KeyError` where it does not know; `on_told` hears
    what it says."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_request: Callable[[str, Any], Any],
        on_told: Callable[[str, Any], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_request = on_request
        self._on_told = on_told
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._unasked = 0
        self.ended = ""

    async def ask(self, method: str, params: Any) -> Any:
        """The answer; raises `LspRefused`, or `NotChecked` when the conversation is over."""
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number], self._unasked = answer, 0
        try:
            await self._send({"id": number, "method": method, "params": params})
            return await answer
        except asyncio.CancelledError:
            self.tell("$/cancelRequest", {"id": number})
            raise
        finally:
            del self._waiting[number]

    def tell(self, method: str, params: Any) -> None:
        """Says something that has no answer; a server that is gone needs no telling, and one that does not
        read is found out by the next question."""
        if not self.ended:
            self._write({"method": method, "params": params})

    async def listen(self) -> str:
        """Hears the server until it ends or cannot be understood; says why."""
        try:
            while True:
                await self._hear(await self._message())
        except _Ended as error:
            return str(error)
        except msgspec.MsgspecError:  # by who hears it
            return _NO_MESSAGE

    def end(self, why: str) -> None:
        """Tells all who wait that no answer will come."""
        self.ended = why
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NotChecked(why))

    async def _send(self, message: dict[str, Any]) -> None:
        if self.ended:
            raise NotChecked(self.ended)
        self._write(message)
        try:
            await self._writer.drain()
        except OSError as error:
            raise NotChecked("it reads no more") from error

    def _write(self, message: dict[str, Any]) -> None:
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        self._writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _message(self) -> dict[str, Any]:
        size = await self._size()
        self._unasked += size
        if size > MAX_MESSAGE or self._unasked > _MAX_UNASKED:
            raise _Ended("it sent too much")
        try:
            body = await self._reader.readexactly(size)
            return msgspec.json.decode(body, type=dict[str, Any])
        except asyncio.IncompleteReadError as error:
            raise _Ended("it closed its output") from error
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise _Ended(_NO_MESSAGE) from error

    async def _size(self) -> int:
        size = -1
        for _ in range(_MAX_HEADERS):
            try:
                line = await self._reader.readline()
            except ValueError as error:  # longer than the reader takes
                raise _Ended(_NO_MESSAGE) from error
            if not line:
                raise _Ended("it closed its output")
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                size = int(value.strip()[:12])
            elif not line.strip() and size >= 0:
                return size
        raise _Ended(_NO_MESSAGE)

    async def _hear(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._settle(number, message)
        elif number is None:
            self._on_told(method, message.get("params"))
        else:
            await self._answer(number, method, message.get("params"))

    def _settle(self, number: Any, message: dict[str, Any]) -> None:
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        if message.get("error") is not None:
            error = msgspec.convert(message["error"], _Error)
            answer.set_exception(LspRefused(error.code, error.message[:_MAX_SAID]))
        else:
            answer.set_result(message.get("result"))

    async def _answer(self, number: Any, method: str, params: Any) -> None:
        try:
            reply = {"result": self._on_request(method, params)}
        except KeyError:
            reply = {"error": {"code": _METHOD_NOT_FOUND, "message": f"{method[:100]} is not known here"}}
        try:
            await self._send({"id": number, **reply})
        except NotChecked as error:
            raise _Ended(str(error)) from error

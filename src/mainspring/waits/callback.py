"""A call from outside: a tiny server on this machine's own address that knows one path, and who was there.

Whoever calls is answered once that is on record, so a crash in between is a call that failed, and is made
again. The address stays the same after a resume as long as nobody took its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Self
from urllib.parse import urlsplit

import msgspec

from mainspring.errors import PathRefused, UsageError
from mainspring.events import OnCallback
from mainspring.waits.decide import Observation
from mainspring.waits.reach import WaitContext
from mainspring.waits.watch import ConditionWatch

_HOST = "127.0.0.1"
_MAX_HEAD = 16 * 1024
_MAX_BODY = 64 * 1024
_SHOWN_BODY = 1500
_MAX_CALLERS = 16
_WITHIN_S = 10.0
_ANSWERED_WITHIN_S = 0.5
_TOKEN_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class CallbackWatch(ConditionWatch):
    """Use `opened`."""

    def __init__(self, condition: OnCallback, waiting: WaitContext) -> None:
        super().__init__(condition)
        self._clock = waiting.reach.clock
        self._token = condition.token
        self._called = asyncio.Event()
        self._recorded: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._are_answered = asyncio.Event()
        self._seen: Observation | None = None
        self._server: asyncio.Server | None = None
        self._callers: set[asyncio.StreamWriter] = set()
        self._admitted: set[asyncio.StreamWriter] = set()

    @classmethod
    async def opened(cls, condition: OnCallback, waiting: WaitContext) -> Self:
        token = condition.token or secrets.token_hex(16)
        if not _TOKEN_CHARACTERS.issuperset(token):
            raise UsageError("The token of a callback has letters, digits, - and _ only.")
        watch = cls(msgspec.structs.replace(condition, token=token), waiting)
        watch._server = await watch._listen(urlsplit(condition.url).port or 0 if condition.url else 0)
        port = watch._server.sockets[0].getsockname()[1]
        url = f"http://{_HOST}:{port}/{token}"
        watch.condition = msgspec.structs.replace(condition, token=token, url=url)
        if condition.file:
            await watch._tell(waiting, condition.file, url)
        return watch

    async def _tell(self, waiting: WaitContext, file: str, url: str) -> None:
        try:
            await asyncio.to_thread(waiting.files.write, file, f"{url}\n".encode())
        except (PathRefused, OSError) as error:
            await self.close()
            raise UsageError(f"The address cannot be written to {file}: {error}.") from error

    async def look(self) -> Observation | None:
        return self._seen

    async def rest(self) -> None:
        await self._called.wait()

    async def settle(self) -> None:
        if not self._recorded.done():
            self._recorded.set_result(self._seen is not None)

    async def close(self) -> None:
        """Who was admitted is answered first; who comes too late, or says nothing, is cut off."""
        if self._server is not None:
            self._server.close()
        if not self._recorded.done():
            self._recorded.set_result(False)
        if self._admitted:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._are_answered.wait(), _ANSWERED_WITHIN_S)
        for writer in tuple(self._callers):
            writer.transport.abort()

    async def _listen(self, port: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(self._serve, _HOST, port, limit=_MAX_HEAD)
        except OSError:
            if not port:
                raise
        return await asyncio.start_server(self._serve, _HOST, 0, limit=_MAX_HEAD)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._callers) >= _MAX_CALLERS:
            writer.transport.abort()
            return
        self._callers.add(writer)
        try:
            async with asyncio.timeout(_WITHIN_S):
                is_admitted = await self._hear(reader)
            if is_admitted:
                self._admitted.add(writer)
                is_admitted = await asyncio.shield(self._recorded)
            status = "200 OK" if is_admitted else "404 Not Found"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            writer.close()
        except (TimeoutError, OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            writer.transport.abort()
        finally:
            self._callers.discard(writer)
            self._admitted.discard(writer)
            if not self._admitted:
                self._are_answered.set()

    async def _hear(self, reader: asyncio.StreamReader) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *headers = head.split("\r\n")
        target = [*request.split(" "), ""][1].partition("?")[0]
        if not secrets.compare_digest(target.encode(), f"/{self._token}".encode()):
            return False
        length = _length(headers)
        body = await reader.readexactly(min(length, _MAX_BODY))
        if self._seen is None:
            self._seen = Observation(_told(body, length), self._clock())
            self._called.set()
        return True


def _length(headers: list[str]) -> int:
    values = [line.partition(":")[2] for line in headers if line.lower().startswith("content-length:")]
    return max(int(values[0]), 0) if values else 0


def _told(body: bytes, length: int) -> str:
    text = body.decode("utf-8", errors="replace").strip()
    if not text:
        return "The callback was called"
    cut = f" (the first {_SHOWN_BODY} characters of {length:,} bytes)" if len(text) > _SHOWN_BODY else ""
    return f"The callback was called with{cut}:\n{text[:_SHOWN_BODY]}"

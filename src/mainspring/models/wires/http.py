"""One conversation with a model server, for every wire: bytes go out, stream items come in.

Nothing here retries, and nothing foreign escapes: what goes wrong is a `ModelError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

import mainspring
from mainspring.errors import ModelError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.models import StreamItem
from mainspring.models.failures import Endpoint, not_the_protocol, refused
from mainspring.models.wires.transport import ServerResponse, Transport, TransportLimits
from mainspring.net.sse import EventParser, EventTooLarge
from mainspring.patterns import lazy_pattern

_REASON_BYTES = 1024 * 1024
_BLANK = b" \t\r\n"
# With what the lines of an event stream begin, and no JSON.
_EVENT_STARTS = b":deir"
_HEADERS = {
    "accept": "*/*",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": f"mainspring/{mainspring.__version__}",
}


class StreamReader(Protocol):
    """Reads one reply of one wire."""

    @property
    def is_done(self) -> bool:
        """Whether the protocol says that nothing follows."""
        ...

    def feed(self, data: bytes) -> Sequence[StreamItem]:
        """The items in one event, or in a whole JSON reply; raises `ModelError`, or what decoding raises."""
        ...

    def end(self) -> Sequence[StreamItem]:
        """The last items, `Finished` at the end; raises `ModelError` when the reply is not complete."""
        ...


class Channel:
    def __init__(
        self,
        endpoint: Endpoint,
        headers: dict[str, str],
        bounds: TransportLimits | None = None,
        proxy: str = "",
    ) -> None:
        self._endpoint = endpoint
        self._transport = Transport(endpoint, {**_HEADERS, **headers}, bounds or TransportLimits(), proxy)

    async def stream(self, path: str, body: bytes, reader: StreamReader) -> AsyncGenerator[StreamItem]:
        """Sends a request and reads its reply."""
        answer = await self._ask("POST", path, body)
        try:
            intake = _Intake(reader, self._endpoint, answer.headers.get("content-type", ""))
            while (chunk := await answer.read()) is not None:
                for item in intake.take(chunk):
                    yield item
                if reader.is_done:
                    await answer.drain()
                    break
        finally:
            answer.release()
        for item in intake.end():
            yield item

    async def read(self, path: str, body: bytes = b"") -> bytes:
        """The whole answer to a plain question."""
        return await _whole(await self._ask("POST" if body else "GET", path, body))

    async def find(self, path: str, body: bytes = b"") -> bytes | None:
        """The same; None when the server has none, why ever."""
        answer = await self._transport.ask("POST" if body else "GET", path, body)
        if answer.status == 200:
            return await _whole(answer)
        await self._reason(answer)
        return None

    async def close(self) -> None:
        await self._transport.close()

    async def _ask(self, method: str, path: str, body: bytes) -> ServerResponse:
        answer = await self._transport.ask(method, path, body)
        if answer.status == 200:
            return answer
        raise refused(self._endpoint, answer.status, await self._reason(answer), answer.headers)

    async def _reason(self, answer: ServerResponse) -> bytes:
        """What is said with a refusal, or as much of it as comes: the refusal stands without it."""
        received = b""
        try:
            with suppress(ModelError):
                while len(received) < _REASON_BYTES and (chunk := await answer.read()) is not None:
                    received += chunk
        finally:
            answer.release()
        return received


async def _whole(answer: ServerResponse) -> bytes:
    received: list[bytes] = []
    try:
        while (chunk := await answer.read()) is not None:
            received.append(chunk)
    finally:
        answer.release()
    return b"".join(received)


class _Intake:
    """From the bytes of a reply to the items in them: server-sent events, or one JSON document."""

    def __init__(self, reader: StreamReader, endpoint: Endpoint, content_type: str) -> None:
        self._reader = reader
        self._endpoint = endpoint
        self._is_json = content_type.partition(";")[0].strip().lower() == "application/json"
        self._parser: EventParser | None = None
        self._document: list[bytes] = []
        self._has_begun = False

    def take(self, chunk: bytes) -> Iterator[StreamItem]:
        """The items that are whole by now; what came before a fault is given before it is raised."""
        if not self._has_begun and (start := chunk.lstrip(_BLANK)[:1]):
            self._begin(start)
        if self._parser is None:
            self._document.append(chunk)
            return
        try:
            events = self._parser.feed(chunk)
        except EventTooLarge as error:
            raise not_the_protocol(self._endpoint, "an event without an end") from error
        yield from self._read(events)

    def _begin(self, start: bytes) -> None:
        """What a reply is shows in its first character: servers and proxies name the wrong type."""
        self._has_begun = True
        if start == b"<":
            raise not_the_protocol(self._endpoint, "a web page")
        if start not in b"{[" and (start in _EVENT_STARTS or not self._is_json):
            self._parser = EventParser()

    def end(self) -> list[StreamItem]:
        items: list[StreamItem] = []
        if not self._reader.is_done:
            items.extend(self._read(self._rest()))
        items.extend(self._reader.end())
        return items

    def _rest(self) -> list[bytes]:
        if self._parser is not None:
            return self._parser.flush()
        return [b"".join(self._document)] if self._has_begun or self._is_json else []

    def _read(self, events: list[bytes]) -> Iterator[StreamItem]:
        for data in events:
            try:
                items = self._feed(data)
            except DECODE_ERRORS as error:
                raise not_the_protocol(self._endpoint, data[:200].decode("utf-8", "replace")) from error
            yield from items

    def _feed(self, data: bytes) -> Sequence[StreamItem]:
        try:
            return self._reader.feed(data)
        except (UnicodeDecodeError, msgspec.DecodeError):
            mended = _mended(data)
            if mended == data:
                raise
            return self._reader.feed(mended)


# Half of a character that is written as two escapes.
_HALF = lazy_pattern(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def _mended(data: bytes) -> bytes:
    """An event with whole characters only: small servers cut tokens inside them."""
    return _HALF.sub(b"\\\\ufffd", data.decode("utf-8", "replace").encode())

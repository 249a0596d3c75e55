"""Just enough HTTP/1.1 for a server on loopback: requests with a length, keep-alive, chunked replies.

`ServerConnection` calls `answer` once per complete request and plays the `HttpAnswer` that it gives;
everything happens in event loop callbacks, so that a reply is on the wire before the loop turns. A client
that sends requests before the last one was answered gets them answered in order.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from socket import SO_LINGER, SOL_SOCKET
from typing import Literal

import msgspec

_END = b"0\r\n\r\n"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests"}
_AT_ONCE = 64


class Incoming(msgspec.Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: a head, then slices with `delay_s` between them. `ending` is what becomes of the
    connection; `is_endless` repeats the slices until the client goes away."""

    head: bytes = b""
    slices: Sequence[bytes] = ()
    first_delay_s: float = 0.0
    delay_s: float = 0.0
    ending: Literal["keep", "close", "reset"] = "keep"
    is_endless: bool = False
    on_sent: Callable[[], None] | None = None


def whole(status: int, body: bytes, *, headers: dict[str, str] | None = None) -> HttpAnswer:
    head = _head(
        status, {"content-type": "application/json", **(headers or {}), "content-length": str(len(body))}
    )
    return HttpAnswer(head=head, slices=(body,))


def chunked(
    slices: Sequence[bytes], *, headers: dict[str, str] | None = None, is_whole: bool = True
) -> HttpAnswer:
    """A reply in HTTP chunks, one per slice; without its end when it is not whole."""
    fields = {"content-type": "text/event-stream", **(headers or {}), "transfer-encoding": "chunked"}
    framed = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in slices if piece]
    if is_whole:
        framed.append(_END)
    return HttpAnswer(head=_head(200, fields), slices=framed)


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}"]
    lines.extend(f"{name}: {value}" for name, value in headers.items())
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class ServerConnection(asyncio.Protocol):
    def __init__(
        self, number: int, answer: Callable[[Incoming], HttpAnswer], open_ones: set[ServerConnection]
    ) -> None:
        self._number = number
        self._answer = answer
        self._open_ones = open_ones
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._head: tuple[str, str, dict[str, str], int] | None = None
        self._is_busy = False
        self._is_paused = False
        self._timer: asyncio.Handle | None = None
        self._resume: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_ones.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._open_ones.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._is_busy:
            self._next_request()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._resume is not None:
            resume, self._resume = self._resume, None
            resume()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _next_request(self) -> None:
        if self._head is None:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            self._head = _parse_head(bytes(self._received[:end]))
            del self._received[: end + 4]
            if self._head[2].get("expect", "").lower() == "100-continue":
                self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        method, path, headers, length = self._head
        if len(self._received) < length:
            return
        body = bytes(self._received[:length])
        del self._received[:length]
        self._head = None
        self._is_busy = True
        self._play(self._answer(Incoming(method, path, headers, body, self._number)))

    def _play(self, answer: HttpAnswer) -> None:
        if answer.first_delay_s:
            later = msgspec.structs.replace(answer, first_delay_s=0.0)
            self._timer = self._loop.call_later(answer.first_delay_s, self._play, later)
        elif answer.is_endless:
            self._write(answer.head)
            self._repeat(answer)
        elif answer.delay_s:
            self._write(answer.head)
            self._slice(answer, 0)
        else:
            self._write(b"".join((answer.head, *answer.slices)))
            self._sent(answer)

    def _slice(self, answer: HttpAnswer, position: int) -> None:
        if position == len(answer.slices):
            self._sent(answer)
            return
        self._write(answer.slices[position])
        self._timer = self._loop.call_later(answer.delay_s, self._slice, answer, position + 1)

    def _repeat(self, answer: HttpAnswer) -> None:
        if self._transport is None:
            return
        self._write(b"".join(islice(cycle(answer.slices), _AT_ONCE)))
        if self._is_paused:
            self._resume = lambda: self._repeat(answer)
        else:
            self._timer = self._loop.call_soon(self._repeat, answer)

    def _sent(self, answer: HttpAnswer) -> None:
        if answer.on_sent is not None:
            answer.on_sent()
        self._is_busy = False
        if self._transport is None:
            return
        if answer.ending == "close":
            self._transport.close()
        elif answer.ending == "reset":
            reset(self._transport)
        elif self._received:
            self._next_request()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)


def reset(transport: asyncio.Transport) -> None:
    """Breaks a connection so that the other side sees a reset, not an end."""
    transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str], int]:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return method, path, headers, int(headers.get("content-length", "0"))

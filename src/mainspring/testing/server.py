"""A model server that plays a script over real HTTP on loopback, with faults on demand.

Which reply a request gets depends only on the request: on how many replies stand in it already. So a client
that was killed and resumed gets the reply that it would have got. Faults are counted, and come first. Every
request is checked as its provider would (`strictness.py`), and recorded, with when it was complete and when
the last byte of the answer before it had been sent.
From a shell: `python -m mainspring.testing.server SCRIPT.json [--port N]`; the first line is the base URL.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from mainspring.errors import ConfigError
from mainspring.events import Usage
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.models.scripted import Fault, Script, ScriptedReply, load_script
from mainspring.testing.dialects import Asked, Dialect, Frame
from mainspring.testing.dialects.anthropic import Anthropic
from mainspring.testing.dialects.chat import Chat
from mainspring.testing.dialects.gemini import Gemini
from mainspring.testing.dialects.responses import Responses
from mainspring.testing.http11 import HttpAnswer, Incoming, ServerConnection, chunked, whole
from mainspring.testing.refusals import overflows
from mainspring.testing.strictness import problem

_GIVES_REPLY = frozenset({"slow", "gzip", "whole"})


class SeenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came. Times are monotonic; `idle_ns` is since the last byte of the answer before it."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    size: int
    connection: int
    arrived_ns: int
    answered_before_ns: int | None
    reply: int | None = None
    fault: str = ""

    @property
    def idle_ns(self) -> int | None:
        return None if self.answered_before_ns is None else self.arrived_ns - self.answered_before_ns

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Scripted:
    """The script at work: takes requests, gives answers, remembers both."""

    def __init__(self, script: Script, *, keep_bodies: bool = True) -> None:
        self.script = script
        self.seen: list[SeenRequest] = []
        self.looks: list[SeenRequest] = []
        self._bodies: list[bytes] = []
        self._keep_bodies = self._is_strict = keep_bodies
        self._answered_ns: int | None = None
        self._faults: dict[int, list[Fault]] = {}

    def answer(self, incoming: Incoming) -> HttpAnswer:
        arrived_ns = time.monotonic_ns()
        path = incoming.path.partition("?")[0]
        if incoming.method == "GET" or path in self.script.pages:
            self.looks.append(self._seen(incoming, arrived_ns))
            return self._read(incoming)
        dialect = _dialect(path)
        if incoming.method != "POST" or dialect is None:
            return whole(404, b'{"error":{"message":"There is nothing here.","type":"not_found"}}')
        fault, reply_index = None, None
        try:
            asked = dialect.asked(path, incoming.body)
        except DECODE_ERRORS as error:
            answer = whole(400, msgspec.json.encode({"error": {"message": f"Not a request: {error}"}}))
        else:
            refusal = problem(dialect, incoming.body) if self._is_strict else ""
            if refusal:
                answer = whole(400, dialect.refusal(refusal))
            else:
                reply_index = asked.replies
                reply = self.script.reply(reply_index, (incoming.body,))
                fault = self._next_fault(reply)
                answer = self._reply(dialect, asked, reply, fault, self._usage(reply, incoming.body))
        self._record(incoming, arrived_ns, reply_index, fault)
        return msgspec.structs.replace(answer, on_sent=self._mark_sent)

    def _mark_sent(self) -> None:
        self._answered_ns = time.monotonic_ns()

    def _record(self, incoming: Incoming, arrived_ns: int, reply: int | None, fault: Fault | None) -> None:
        seen = self._seen(incoming, arrived_ns)
        kind = fault.kind if fault else ""
        self.seen.append(msgspec.structs.replace(seen, number=len(self.seen), reply=reply, fault=kind))

    def _seen(self, incoming: Incoming, arrived_ns: int) -> SeenRequest:
        return SeenRequest(
            number=len(self.looks),
            method=incoming.method,
            path=incoming.path,
            headers=incoming.headers,
            body=incoming.body if self._keep_bodies else b"",
            size=len(incoming.body),
            connection=incoming.connection,
            arrived_ns=arrived_ns,
            answered_before_ns=self._answered_ns,
        )

    def _next_fault(self, reply: ScriptedReply) -> Fault | None:
        for key, faults in ((0, self.script.faults), (id(reply), reply.all_faults)):
            left = self._faults.get(key)
            if left is None:
                left = self._faults[key] = [fault for fault in faults for _ in range(fault.times)]
            if left:
                return left.pop(0)
        return None

    def _reply(
        self, dialect: Dialect, asked: Asked, reply: ScriptedReply, fault: Fault | None, usage: Usage
    ) -> HttpAnswer:
        if fault is not None and fault.kind not in _GIVES_REPLY:
            return _faulty(dialect, fault, dialect.frames(reply, usage, asked.model))
        if not asked.is_stream or (fault is not None and fault.kind == "whole"):
            answer = whole(200, dialect.whole(reply, usage, asked.model))
        else:
            slices = [frame.data for frame in dialect.frames(reply, usage, asked.model)]
            if reply.slice_bytes:
                slices = _cut(b"".join(slices), reply.slice_bytes)
            if fault is not None and fault.kind == "gzip":
                packed = _cut(gzip.compress(b"".join(slices)), reply.slice_bytes or 64)
                answer = chunked(packed, headers={"content-encoding": "gzip"})
            else:
                answer = chunked(slices)
        seconds = fault.seconds if fault is not None else 0.0
        return msgspec.structs.replace(answer, first_delay_s=seconds, delay_s=reply.delay_s)

    def _usage(self, reply: ScriptedReply, body: bytes) -> Usage:
        if reply.usage:
            return reply.usage
        known = 0
        if self.script.has_cache:
            known = max((_shared(body, earlier) for earlier in self._bodies), default=0)
            self._bodies.append(body)
        return Usage(input_tokens=len(body) // 4, cached_tokens=known // 4, output_tokens=reply.length // 4)

    def _read(self, incoming: Incoming) -> HttpAnswer:
        path, pages = incoming.path.partition("?")[0], self.script.pages
        if (page := pages.get(incoming.path, pages.get(path))) is not None:
            return whole(200, msgspec.json.encode(page))
        match path:
            case "/requests":
                return whole(200, msgspec.json.encode([_as_json(seen) for seen in self.seen]))
            case "/v1/models" | "/v1beta/models":
                is_gemini = "x-goog-api-key" in {name.lower() for name in incoming.headers}
                listed = self._gemini_models() if is_gemini else self._models()
                return whole(200, msgspec.json.encode(listed))
            case _:
                return whole(404, b'{"error":{"message":"There is nothing here.","type":"not_found"}}')

    def _models(self) -> dict[str, Any]:
        sizes = {"max_model_len": size} if (size := self.script.context_tokens) else {}
        models = [{"id": model, "object": "model", **sizes} for model in self.script.models]
        return {"object": "list", "data": models}

    def _gemini_models(self) -> dict[str, Any]:
        sizes = {"inputTokenLimit": size} if (size := self.script.context_tokens) else {}
        methods = {"supportedGenerationMethods": ["generateContent"]}
        return {"models": [{"name": f"models/{each}", **methods, **sizes} for each in self.script.models]}


class ModelServer:
    """`async with ModelServer(script) as server`: clients use `server.url`, tests `server.seen`."""

    def __init__(self, script: Script, *, port: int = 0, keep_bodies: bool = True) -> None:
        self._scripted = Scripted(script, keep_bodies=keep_bodies)
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[ServerConnection] = set()
        self._count = 0

    @property
    def seen(self) -> list[SeenRequest]:
        return self._scripted.seen

    @property
    def looks(self) -> list[SeenRequest]:
        """What was read, and not said to the model: lists of models and other pages."""
        return self._scripted.looks

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """The base URL, as OpenAI-compatible clients want it."""
        return f"{self.address}/v1"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in tuple(self._connections):
            connection.close()
        await self._server.wait_closed()

    def _connect(self) -> ServerConnection:
        self._count += 1
        return ServerConnection(self._count, self._scripted.answer, self._connections)


class HostedModelServer:
    """The same server on a thread of its own, for tests and programs that are not asynchronous."""

    def __init__(self, script: Script, *, port: int = 0, keep_bodies: bool = True) -> None:
        self._server = ModelServer(script, port=port, keep_bodies=keep_bodies)
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self._is_ready = threading.Event()
        self._stop: Callable[[], None] | None = None

    @property
    def seen(self) -> list[SeenRequest]:
        return self._server.seen

    @property
    def looks(self) -> list[SeenRequest]:
        return self._server.looks

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop is not None:
            self._stop()
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._host())

    async def _host(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        try:
            async with self._server:
                self._stop = lambda: loop.call_soon_threadsafe(stop.set) and None
                self._is_ready.set()
                await stop.wait()
        finally:
            self._is_ready.set()


_DIALECTS: tuple[tuple[str, Dialect], ...] = (
    ("/chat/completions", Chat()),
    ("/responses", Responses()),
    ("/messages", Anthropic()),
    (":streamGenerateContent", Gemini()),
    (":generateContent", Gemini()),
)


def _dialect(path: str) -> Dialect | None:
    return next((dialect for ending, dialect in _DIALECTS if path.endswith(ending)), None)


def _faulty(dialect: Dialect, fault: Fault, frames: list[Frame]) -> HttpAnswer:
    match fault.kind:
        case "status" | "overflow":
            return _refusal(dialect, fault)
        case "drop":
            return _dropped(fault, frames)
        case "reset":
            return HttpAnswer(ending="reset")
        case "garbage":
            junk = b"\x00\xff\xfe not an event\n\ndata: \xc3\x28 <html>\n\n"
            return chunked([junk, frames[-1].data])
        case "malformed":
            return chunked([frames[0].data, b'data: {"id": "x", "choices": [{"delta": {"content": \n\n'])
        case "error_in_stream":
            return chunked([frames[0].data, dialect.error_frame()])
        case "endless":
            text = next((frame for frame in frames if frame.place == "text"), frames[0])
            return msgspec.structs.replace(chunked([text.data], is_whole=False), is_endless=True)
        case "slow" | "gzip" | "whole":
            raise AssertionError("these change the real reply")


def _refusal(dialect: Dialect, fault: Fault) -> HttpAnswer:
    if fault.kind == "overflow":
        refusal = overflows()[fault.provider or "openai"]
        return whole(refusal.status, bytes(refusal.body))
    headers = dict(fault.headers)
    if fault.retry_after is not None:
        headers["retry-after"] = str(fault.retry_after)
    if isinstance(fault.body, str):
        return whole(fault.status, fault.body.encode(), headers={"content-type": "text/html", **headers})
    body = dialect.error(fault.status) if fault.body is None else msgspec.json.encode(fault.body)
    return whole(fault.status, body, headers=headers)


def _dropped(fault: Fault, frames: list[Frame]) -> HttpAnswer:
    if fault.at == "start":
        return HttpAnswer(ending="close")
    places = [position for position, frame in enumerate(frames) if frame.place == fault.at]
    end = places[len(places) // 2] + 1 if places else 1
    cut = [frame.data for frame in frames[:end]]
    return msgspec.structs.replace(chunked(cut, is_whole=False), ending="close")


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def _shared(first: bytes, second: bytes) -> int:
    """How many bytes two requests begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))


def _as_json(seen: SeenRequest) -> dict[str, Any]:
    known = msgspec.structs.asdict(seen)
    return {**known, "body": seen.body.decode("utf-8", "replace"), "idle_ns": seen.idle_ns}


async def _serve(script: Script, port: int, *, keep_bodies: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with ModelServer(script, port=port, keep_bodies=keep_bodies) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mainspring.testing.server", description="Plays a script."
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--no-bodies", action="store_true", help="neither record nor check what requests say")
    options = parser.parse_args()
    try:
        script = load_script(options.script)
    except ConfigError as error:
        parser.error(str(error))
    asyncio.run(_serve(script, options.port, keep_bodies=not options.no_bodies))


if __name__ == "__main__":
    main()

"""One server as our broker sees it, through the SDK: connecting, listing, calling, and what it asks for.

Only the broker loads this module. A connection lives in one task, because the SDK's scopes must end where
they began; requests run in tasks of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal, cast

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from mainspring import __version__
from mainspring.errors import MainspringError
from mainspring.mcp import wire
from mainspring.mcp.http import HttpWays, unreachable
from mainspring.mcp.oauth import LoginNeeded, TokenSigner, auth_of

_PIECE = 1 << 18
_MAX_MESSAGE = 128 * 1024 * 1024
_MAX_PAGES = 100
_NOISE = 300

Say = Callable[[wire.FromBroker], None]
Reason = Literal["protocol", "connection", "auth", "missing"]


class McpConnection:
    def __init__(self, message: wire.ConnectServer, say: Say, pipes: tuple[int, int] | None) -> None:
        self._asked = message
        self._say = say
        self._pipes = pipes
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._answers: dict[int, asyncio.Future[wire.AnswerServer]] = {}
        self._calls: list[int] = []
        self._auth: TokenSigner | None = None
        self._http: HttpWays | None = None
        self.task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Returns when the server answered; raises what went wrong."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._live(opened))
        try:
            await opened
        except asyncio.CancelledError:
            self.task.cancel()
            raise

    def close(self) -> None:
        self._closing.set()
        if self.task is not None and self._client is None:
            self.task.cancel()

    async def _live(self, opened: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                transport = await stack.enter_async_context(self._transport())
                client = Client(
                    cast("Any", _Given(transport)),
                    elicitation_callback=cast("Any", self._elicit),
                    list_roots_callback=None,
                    message_handler=cast("Any", self._hear),
                    client_info=types.Implementation(name="mainspring", version=__version__),
                    cache=None,
                )
                self._client = await stack.enter_async_context(client)
                if not opened.done():
                    opened.set_result(None)
                await self._closing.wait()
        except BaseException as error:  # noqa: BLE001 - told to whoever opened it, or as a loss
            if not opened.done():
                opened.set_exception(self._told(_innermost(error)))
            elif not self._closing.is_set():
                self._say(wire.ServerLost(server=self._asked.server, detail=describe_error(error)[1]))
        finally:
            self._client = None

    def _told(self, error: BaseException) -> BaseException:
        """What kept us from connecting; the SDK says of some answers over HTTP only that they were errors."""
        if isinstance(error, MCPError) and self._http and self._http.refusal:
            return ConnectionError(f"it answered {self._http.refusal}")
        return error

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[TransportStreams]:
        asked = self._asked
        if self._pipes is not None:
            async with _piped(self._pipes, self._noise, self._ended) as streams:
                yield streams
            return
        auth = self._auth = auth_of(asked, self._visit)
        ways = self._http = HttpWays(asked.proxies)
        if asked.transport == "sse":
            factory = cast("Any", ways.client)
            async with sse_client(
                asked.url, headers=asked.headers, auth=auth, httpx_client_factory=factory
            ) as streams:
                yield streams
            return
        async with (
            ways.client(headers=asked.headers, auth=auth) as client,
            streamable_http_client(asked.url, http_client=client) as streams,
        ):
            yield streams

    async def offers(self) -> wire.Offers:
        client, able = self._ready, self._ready.server_capabilities
        tools, ttl_ms = await _all(client.list_tools, "tools") if able.tools else ([], None)
        prompts, _ = await _all(client.list_prompts, "prompts") if able.prompts else ([], None)
        resources, _ = await _all(client.list_resources, "resources") if able.resources else ([], None)
        templates: list[dict[str, Any]] = []
        if able.resources:
            try:
                templates, _ = await _all(client.list_resource_templates, "resource_templates")
            except MCPError:
                templates = []  # many servers with resources know no templates
        is_modern = client.protocol_version >= "2026"
        info = client.server_info
        return wire.Offers(
            protocol=client.protocol_version,
            name=info.name if info else "",
            version=info.version if info else "",
            instructions=client.instructions or "",
            ttl_s=None if ttl_ms is None or not is_modern else ttl_ms / 1000,
            tools=tools,
            prompts=prompts,
            resources=resources,
            templates=templates,
        )

    async def call(self, asked: wire.CallServerTool) -> bytes:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            self._say(wire.ServerProgress(id=asked.id, progress=progress, total=total, message=message or ""))

        self._calls.append(asked.id)
        try:
            result = await self._ready.call_tool(asked.tool, asked.arguments, progress_callback=on_progress)
        except MCPError as error:
            if self._auth is not None and self._auth.is_stopped:  # more is needed than was granted
                raise LoginNeeded("a person must log in") from error
            raise
        finally:
            self._calls.remove(asked.id)
        return _json(result)

    async def read(self, uri: str) -> bytes:
        return _json(await self._ready.read_resource(uri, cache_mode="bypass"))

    async def prompt(self, name: str, arguments: dict[str, str]) -> bytes:
        return _json(await self._ready.get_prompt(name, arguments))

    def answer(self, message: wire.AnswerServer) -> None:
        if (waiting := self._answers.get(message.key)) and not waiting.done():
            waiting.set_result(message)

    @property
    def _ready(self) -> Client:
        if self._client is None:
            raise ConnectionError("it is not connected")
        return self._client

    async def _ask(self, message: str, schema: dict[str, Any], url: str = "") -> wire.AnswerServer:
        answer: asyncio.Future[wire.AnswerServer] = asyncio.get_running_loop().create_future()
        key = id(answer)
        self._answers[key] = answer
        call = self._calls[-1] if self._calls else 0
        self._say(
            wire.ServerAsks(
                id=call, server=self._asked.server, key=key, message=message, schema=schema, url=url
            )
        )
        try:
            return await answer
        finally:
            del self._answers[key]

    async def _elicit(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        url = getattr(params, "url", "")
        schema = cast("dict[str, Any]", getattr(params, "requested_schema", {}))
        given = await self._ask(params.message, schema, url)
        is_filled = given.action == "accept" and not url
        return types.ElicitResult(action=given.action, content=given.content if is_filled else None)

    async def _visit(self, url: str) -> dict[str, Any]:
        """A person visits an address to log in; gives what came back from there."""
        return (await self._ask("login", {}, url)).content

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._say(wire.OffersChanged(server=self._asked.server))

    def _noise(self, line: bytes) -> None:
        text = line[:_NOISE].decode("utf-8", "replace")
        self._say(wire.ServerNoise(server=self._asked.server, text=text))

    def _ended(self, detail: str) -> None:
        if not self._closing.is_set():
            self._say(wire.ServerLost(server=self._asked.server, detail=detail))


class _Given:
    """Streams that are open already, in the form that a client enters."""

    def __init__(self, streams: TransportStreams) -> None:
        self._streams = streams

    async def __aenter__(self) -> TransportStreams:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        return


@asynccontextmanager
async def _piped(
    pipes: tuple[int, int], on_noise: Callable[[bytes], None], on_end: Callable[[str], None]
) -> AsyncGenerator[TransportStreams]:
    """The protocol over two pipes: a message is a line; what is none is told once and left out."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_PIECE)
    reading, writing = os.fdopen(pipes[0], "rb", 0), os.fdopen(pipes[1], "wb", 0)
    incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), reading)
    outgoing, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, writing)
    writer = asyncio.StreamWriter(outgoing, flow, None, loop)
    heard, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with heard:
            detail = "it closed its output"
            try:
                async for line in _lines(reader):
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        on_noise(line)
                        continue
                    await heard.send(SessionMessage(message))
            except OverflowError:
                detail = f"it sent a message of more than {_MAX_MESSAGE >> 20} MiB"
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return
            on_end(detail)

    async def write() -> None:
        async with said:
            async for message in said:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    writer.write(text.encode() + b"\n")
                    await writer.drain()
                except OSError:
                    return  # the reader hears the end

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            yield read_stream, write_stream
        finally:
            outgoing.close()
            incoming.close()
            group.cancel_scope.cancel()


async def _lines(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    kept = bytearray()
    while piece := await reader.read(_PIECE):
        *whole, rest = piece.split(b"\n")
        for part in whole:
            kept += part
            if kept.strip():
                yield bytes(kept)
            kept.clear()
        kept += rest
        if len(kept) > _MAX_MESSAGE:
            raise OverflowError


async def _all(ask: Any, field: str) -> tuple[list[dict[str, Any]], int | None]:
    """All pages of a list, as the protocol writes them, and how long the first one holds."""
    found: list[dict[str, Any]] = []
    cursor, ttl_ms = None, None
    for _ in range(_MAX_PAGES):
        page = await ask(cursor=cursor)
        ttl_ms = page.ttl_ms if ttl_ms is None else ttl_ms
        found += [
            item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in getattr(page, field)
        ]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found, ttl_ms


def _json(result: Any) -> bytes:
    return result.model_dump_json(by_alias=True, exclude_none=True).encode()


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseException", error.exceptions[0])
    return error


def describe_error(error: BaseException) -> tuple[Reason, str]:
    """Who failed, and a sentence's end that says how."""
    found = _innermost(error)
    match found:
        case LoginNeeded() | OAuthFlowError():
            return "auth", str(found) or "a person must log in"
        case httpx2.HTTPStatusError() if found.response.status_code in (401, 403):
            return "auth", f"it answered {found.response.status_code}"
        case httpx2.HTTPStatusError():
            return "connection", f"it answered {found.response.status_code}"
        case httpx2.TransportError():
            return "connection", unreachable(found)
        case MainspringError():
            return "connection", f"{found.message} {found.remedy}".strip().rstrip(".")
        case OSError():
            return "connection", str(found) or type(found).__name__
        case MCPError():
            data = found.error.data
            details = f" ({json.dumps(data)[:300]})" if data else ""
            return "protocol", f"{found.error.message} [{found.error.code}]{details}"
        case RuntimeError():
            return "protocol", str(found)[:2000]
        case _:
            return "protocol", f"{type(found).__name__}: {found}"[:2000]

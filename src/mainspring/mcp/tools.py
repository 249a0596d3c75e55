"""Tools of servers as tools of ours: named `mcp__server__tool`, judged, bounded and recorded like all others.

What a server says of its tools (that one only reads, say) is shown to people and grants nothing.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from mainspring.events import Media
from mainspring.mcp import wire
from mainspring.mcp.elicitation import content, question
from mainspring.mcp.hub import Listener, McpHub, ServerEntry
from mainspring.mcp.link import McpFailed
from mainspring.mcp.schemas import plain_schema
from mainspring.mcp.servers import McpServer
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.bounds import HANDLE
from mainspring.tools.schema import Arguments

PREFIX = "mcp__"
_MAX_NAME = 256
_MAX_DESCRIPTION = 2000
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MAX_IMAGE = 5 * 1024 * 1024


def tools_of(hub: McpHub, entry: ServerEntry) -> Iterator[Tool]:
    """The tools that a server is known to have, by name; those without a usable name are left out."""
    found: dict[str, dict[str, Any]] = {}
    for offered in entry.offers.tools:
        name = offered.get("name")
        if isinstance(name, str) and 0 < len(name) <= _MAX_NAME:
            found.setdefault(name, offered)
    for name in sorted(found):
        yield tool_named(hub, entry, name, found[name])


def tool_named(
    hub: McpHub, entry: ServerEntry, name: str, offered: Mapping[str, Any] = MappingProxyType({})
) -> Tool:
    """A tool as a server offers it; one that is not offered yet takes any arguments."""
    server = entry.server
    host = urlsplit(server.settings.url).hostname or ""
    is_networked = bool(host) or server.settings.network
    return Tool(
        name=f"{PREFIX}{server.label}__{name}",
        description=_described(offered),
        arguments=Arguments,
        parameters=plain_schema(offered.get("inputSchema")),
        effect="network" if is_networked else "execute",
        outlives=lambda _: True,
        hosts=lambda _: (host,) if host else (),
        run=partial(_run, hub, entry, name),
    )


def _described(offered: Mapping[str, Any]) -> str:
    text = str(offered.get("description") or offered.get("title") or "").strip()
    return text if len(text) <= _MAX_DESCRIPTION else f"{text[:_MAX_DESCRIPTION]}…"


async def _run(
    hub: McpHub, entry: ServerEntry, name: str, arguments: dict[str, Any], place: CallContext
) -> Output:
    server = entry.server

    def on_progress(progress: wire.ServerProgress) -> None:
        total = f"/{progress.total:g}" if progress.total is not None else ""
        place.show(f"{progress.progress:g}{total} {progress.message}".rstrip() + "\n")

    message = wire.CallServerTool(server=server.label, tool=name, arguments=arguments)
    try:
        answer = await hub.ask(entry, message, Listener(on_progress, partial(_ask, server, place)))
    except McpFailed as error:
        raise ToolFailed(_sentence(server, error)) from error
    result = msgspec.json.decode(answer, type=_Result)
    return await result_output(
        server, result.content, result.structured_content, place, is_error=result.is_error
    )


async def _ask(server: McpServer, place: CallContext, asked: wire.ServerAsks) -> wire.AnswerServer:
    """What a person says to a server in the middle of a call. An answer that does not fit is told once more;
    nobody there to ask is a cancel, a no a decline."""
    text = question(server.name, asked.message, asked.schema, asked.url)
    for again in ("", "That does not fit what it asked for.\n"):
        said = await place.ask(again + text)
        if said is None:
            return wire.AnswerServer(key=asked.key, action="decline")
        given = {} if asked.url else content(said, asked.schema)
        if given is not None:
            return wire.AnswerServer(key=asked.key, action="accept", content=given)
    return wire.AnswerServer(key=asked.key, action="cancel")


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    content: list[dict[str, Any]] = []
    structured_content: Any = None
    is_error: bool = False


def _sentence(server: McpServer, error: McpFailed) -> str:
    remedy = f" A person can log in: mainspring mcp login {server.name}." if error.reason == "auth" else ""
    return f"The MCP server {server.name} did not do it: {error.message}.{remedy}"


async def result_output(
    server: McpServer, content: list[dict[str, Any]], structured: Any, place: CallContext, *, is_error: bool
) -> Output:
    """What a server answered, as the result of a call: texts, images that models take, the rest as blobs."""
    texts: list[str] = []
    media: list[Media] = []
    for part in content:
        text, shown = await _part(server, part, place)
        texts.append(text)
        media += [shown] if shown else []
    if structured is not None and not any(part.get("type") == "text" for part in content):
        texts.append(msgspec.json.encode(structured).decode())
    text = "\n".join(text for text in texts if text)
    return Output(text=text or "(the server answered without content)", media=tuple(media), is_error=is_error)


async def _part(server: McpServer, part: dict[str, Any], place: CallContext) -> tuple[str, Media | None]:
    match part.get("type"):
        case "text":
            return str(part.get("text", "")), None
        case "image" | "audio":
            return await _bytes(str(part.get("data", "")), str(part.get("mimeType", "")), place)
        case "resource":
            held = cast("dict[str, Any]", part.get("resource") or {})
            return await resource_part(held, place)
        case "resource_link":
            title = part.get("title") or part.get("name") or ""
            return f"resource @{server.name}:{part.get('uri', '')} {title}".rstrip(), None
        case kind:
            return f"(a part of the unknown type {kind!r} was left out)", None


async def resource_part(held: dict[str, Any], place: CallContext) -> tuple[str, Media | None]:
    """The content of one resource."""
    head = f"[{held.get('uri', 'resource')}]"
    if "text" in held:
        return f"{head}\n{held['text']}", None
    text, media = await _bytes(str(held.get("blob", "")), str(held.get("mimeType", "")), place)
    return f"{head} {text}", media


async def _bytes(encoded: str, media_type: str, place: CallContext) -> tuple[str, Media | None]:
    try:
        data = b64decode(encoded, validate=False)
    except ValueError:
        return "(a part that is not base64 was left out)", None
    blob = await place.keep(data, media_type or "application/octet-stream")
    if media_type in _IMAGES and len(data) <= _MAX_IMAGE:
        return f"(an image is attached: {media_type}, {len(data):,} bytes)", Media(blob=blob)
    return f"({media_type or 'data'} of {len(data):,} bytes is kept as {HANDLE}{blob.sha256})", None

"""Fetches a URL from the public internet as text."""

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.net.web import FetchFailed, Web, WebPage, host_of
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.bounds import bounded
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments
from mainspring.tools.text import decode

_MAX_SHOWN = 24_000
_HTML = ("text/html", "application/xhtml+xml")


class FetchArguments(Arguments, frozen=True):
    url: Annotated[str, Meta(min_length=1, max_length=4000)]


def fetch_tool(web: Web) -> Tool:
    async def run(arguments: FetchArguments, place: CallContext) -> Output:
        try:
            page = await web.fetch(arguments.url)
        except FetchFailed as error:
            raise ToolFailed(str(error)) from error
        text = await asyncio.to_thread(page_text, page)
        head = f"{page.url} answered {page.status} ({page.media_type or 'no type'})"
        cut = f"\n(cut after {len(page.data):,} bytes)" if page.is_cut else ""
        output = Output(text=f"{head}\n\n{text}{cut}", is_error=page.status >= 400)
        return await bounded(output, place, limit=min(_MAX_SHOWN, place.room))

    return Tool(
        name="fetch",
        description=described(Path(__file__)),
        arguments=FetchArguments,
        effect="network",
        hosts=_hosts,
        run=run,
    )


def page_text(page: WebPage) -> str:
    """The text of a page; raises `ToolFailed` when it has none."""
    text = _decoded(page)
    if text is None:
        raise ToolFailed(f"{page.url} is not text ({page.media_type}, {len(page.data):,} bytes).")
    is_html = page.media_type in _HTML or (not page.media_type and text[:500].lstrip()[:1] == "<")
    return import_module("mainspring.tools.html").html_text(text, page.url) if is_html else text


def _decoded(page: WebPage) -> str | None:
    decoded = decode(page.data)
    if decoded is None or not page.charset or decoded.bom:
        return decoded.text if decoded else None
    try:
        return page.data.decode(page.charset, "replace")
    except LookupError:
        return decoded.text


def _hosts(arguments: FetchArguments) -> tuple[str, ...]:
    try:
        return (host_of(arguments.url)[0],)
    except FetchFailed:
        return ()  # the call itself says what is wrong with the URL


TOOL = fetch_tool(Web())

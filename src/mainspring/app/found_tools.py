"""Tools that would fill the window: shown while they are few, else found with `find_tools`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.context.history import BYTES_PER_TOKEN
from mainspring.mcp.find_tools import call_tool, find_tool
from mainspring.settings import Config
from mainspring.tools import Tool
from mainspring.tools.schema import spec_of

NAMES_CHARS = 1600
DOCUMENT = "document"
JOBS = ("submit_job", "job")
_USUAL_WINDOW = 128_000


def are_many(tools: Sequence[Tool], window: int | None, config: Config) -> bool:
    """Whether tools would take more of a window than the settings give them."""
    return _tokens(tools) > config.settings.mcp.find_tools_above * (window or _USUAL_WINDOW)


def shown_or_found(own: list[Tool], code: list[Tool], window: int | None, config: Config) -> list[Tool]:
    """A session's own tools while they are few, and the two tools by which the others are found and called;
    those that ask language servers are always found."""
    is_many = are_many(own, window, config)
    hidden = [*own, *code] if is_many else code

    async def known() -> Sequence[Tool]:
        return hidden

    described = " ".join(filter(None, (plugins_described(own if is_many else ()), code_described(code))))
    return ([] if is_many else own) + ([find_tool(known, described, str), call_tool()] if hidden else [])


def plugins_described(tools: Sequence[Tool]) -> str:
    names = ", ".join(sorted(tool.name for tool in tools))
    cut = names if len(names) <= NAMES_CHARS else f"{names[:NAMES_CHARS].rpartition(',')[0]}, …"
    return f"Plugins: {cut}." if cut else ""


def code_described(tools: Sequence[Tool]) -> str:
    code = ", ".join(tool.name for tool in tools if tool.name not in (DOCUMENT, *JOBS))
    office = "Office files and PDF: document." if any(tool.name == DOCUMENT for tool in tools) else ""
    jobs = f"Jobs on other machines: {', '.join(JOBS)}." if any(tool.name in JOBS for tool in tools) else ""
    return " ".join(filter(None, (code and f"Code: {code}.", office, jobs)))


def _tokens(tools: Sequence[Tool]) -> float:
    return len(msgspec.json.encode([spec_of(tool) for tool in tools])) / BYTES_PER_TOKEN

"""The tools of servers in a session: shown in every request while few, else found with `find_tools`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from mainspring.app.found_tools import NAMES_CHARS, are_many, code_described, plugins_described
from mainspring.app.mcp import build_hub, secrets_of, usable_servers
from mainspring.approvals import Mode
from mainspring.events import Delta, StatusDelta
from mainspring.mcp.find_tools import call_tool, find_tool
from mainspring.mcp.hub import McpHub, ServerEntry
from mainspring.mcp.status import ServerStatus
from mainspring.mcp.tools import PREFIX, tool_named, tools_of
from mainspring.models.wires.messages import wire_name
from mainspring.sandbox import Sandbox
from mainspring.settings import Config
from mainspring.tools import Tool

_SETTLED_WITHIN_S = 5.0


class SessionServers:
    """The servers beside a session. Use `async with` while the session is open."""

    def __init__(self, hub: McpHub, config: Config, warnings: tuple[str, ...]) -> None:
        self._hub = hub
        self._config = config
        self._own: tuple[Tool, ...] = ()
        self._code: tuple[Tool, ...] = ()
        self.warnings = warnings

    @property
    def secrets(self) -> dict[str, str]:
        """What servers are given that looks like a secret, by name."""
        return secrets_of([entry.server for entry in self._entries])

    @property
    def _entries(self) -> Sequence[ServerEntry]:
        return tuple(self._hub.entries.values())

    async def __aenter__(self) -> Self:
        await self._hub.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._hub.close()

    def tell(self, show: Callable[[Delta], None]) -> None:
        """Shows each new state of a server from here on."""

        def changed(name: str, status: ServerStatus) -> None:
            detail = f": {status.detail}" if status.detail else ""
            show(StatusDelta(text=f"MCP server {name}: {status.state}{detail}"))

        self._hub.on_change = changed

    def tools(self, window: int | None, own: Sequence[Tool] = (), code: Sequence[Tool] = ()) -> list[Tool]:
        """What is shown in every request, of servers and of the session's `own`, which are found in the same
        way, as those that ask language servers (`code`) always are. Equal offers give equal tools, in the
        same order."""
        self._own, self._code = tuple(own), tuple(code)
        always = [
            tool for entry in self._entries if entry.server.settings.always_load for tool in self._of(entry)
        ]
        usual = [
            *own,
            *(
                tool
                for entry in self._entries
                if not entry.server.settings.always_load
                for tool in self._of(entry)
            ),
        ]
        is_many = are_many(usual, window, self._config)
        is_waiting = any(entry.manifest is None for entry in self._entries)
        shown = sorted(always if is_many else (*always, *usual), key=lambda tool: tool.name)
        if not is_many and not is_waiting and not code:
            return shown
        return [
            find_tool(self._settled, self._described(is_many=is_many), self._waiting),
            call_tool(),
            *shown,
        ]

    def known(self) -> list[Tool]:
        """All tools that can be found by now."""
        return [*self._own, *self._code, *(tool for entry in self._entries for tool in self._of(entry))]

    async def _settled(self) -> list[Tool]:
        """All tools, once servers that are starting have answered or a moment has passed."""
        starting = [entry.starting for entry in self._entries if entry.manifest is None and entry.starting]
        if starting:
            await asyncio.wait(starting, timeout=_SETTLED_WITHIN_S)
        return self.known()

    def find(self, name: str) -> Tool | None:
        """A tool by its name, or by what it is called on the wire."""
        if not name.lstrip("_").startswith(PREFIX):
            return None
        known = (tool for tool in self.known() if name in (tool.name, wire_name(tool.name)))
        return next(known, None) or self._unknown(name)

    def _unknown(self, name: str) -> Tool | None:
        """A tool of a server that has not answered yet: a call waits for it, and is told how it stands."""
        label, _, tool = name.removeprefix(PREFIX).partition("__")
        entry = self._hub.entries.get(label)
        return tool_named(self._hub, entry, tool) if entry and entry.manifest is None and tool else None

    def _of(self, entry: ServerEntry) -> list[Tool]:
        return list(tools_of(self._hub, entry))

    def _described(self, *, is_many: bool) -> str:
        """Which servers there are, with names of tools as far as there is room."""
        texts: list[str] = []
        room = NAMES_CHARS // max(len(self._entries), 1)
        for entry in sorted(self._entries, key=lambda each: each.server.name):
            names = ", ".join(sorted(str(tool.get("name")) for tool in entry.offers.tools))
            cut = names if len(names) <= room else f"{names[:room].rpartition(',')[0]}, …"
            texts.append(f"{entry.server.name} ({cut})" if cut else entry.server.name)
        own = plugins_described(self._own if is_many else ())
        return " ".join(filter(None, (f"Servers: {'; '.join(texts)}.", own, code_described(self._code))))

    def _waiting(self) -> str:
        states = [
            " ".join(filter(None, (entry.server.name, "is", entry.status.state, entry.status.detail)))
            for entry in self._entries
            if entry.manifest is None
        ]
        return f"Without tools so far: {'; '.join(states)}." if states else ""


def open_servers(workspace: Path, mode: Mode, sandbox: Sandbox | str, config: Config) -> SessionServers:
    """The servers that a session in a folder may use."""
    usable = usable_servers(workspace, config)
    hub = build_hub(usable.servers, workspace, mode, config, sandbox)
    return SessionServers(hub, config, usable.warnings)

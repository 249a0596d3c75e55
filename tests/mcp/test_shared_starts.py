"""Several sessions of one process with the same servers: a server that is not known is started once for all."""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import AsyncExitStack

import pytest

from mainspring.app.mcp import build_hub, servers_in
from mainspring.mcp.hub import McpHub, ServerEntry
from mainspring.mcp.settings import McpServerSettings
from tests.mcp.conftest import PEER, Desk


def counted(kind: str) -> McpServerSettings:
    """A server that writes a line into the workspace each time it starts."""
    command = f"echo started >> starts; exec {shlex.join([sys.executable, str(PEER), kind])}"
    return McpServerSettings(command="/bin/sh", args=("-c", command), network=False)


def hubs(desk: Desk, count: int) -> list[McpHub]:
    servers = servers_in(desk.workspace, desk.config).servers
    return [build_hub(servers, desk.workspace, "auto", desk.config) for _ in range(count)]


def entry_of(hub: McpHub) -> ServerEntry:
    (entry,) = hub.entries.values()
    return entry


def starts(desk: Desk) -> int:
    return len((desk.workspace / "starts").read_text().splitlines())


@pytest.mark.parametrize(("kind", "states"), [("sdk", {"ready", "known"}), ("dead", {"failed"})])
def test_a_server_is_started_once_for_all_sessions(desk: Desk, kind: str, states: set[str]) -> None:
    desk.servers = {"peer": counted(kind)}

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(hub) for hub in hubs(desk, 4)]
            await asyncio.wait([task for hub in opened if (task := entry_of(hub).starting)])
            assert {entry_of(hub).status.state for hub in opened} == states
            assert starts(desk) == 1
            if kind == "sdk":
                assert all(entry_of(hub).offers.tools for hub in opened)
                await opened[-1].ready(entry_of(opened[-1]), within_s=60)  # a call wants it for itself
                assert entry_of(opened[-1]).status.state == "ready"
                assert starts(desk) == 2

    asyncio.run(scene())


def test_when_the_session_that_starts_it_is_closed_another_one_does(desk: Desk) -> None:
    desk.servers = {"peer": counted("sdk")}

    async def scene() -> None:
        first, *others = hubs(desk, 3)
        await first.__aenter__()
        async with AsyncExitStack() as stack:
            for hub in others:
                await stack.enter_async_context(hub)
            await asyncio.sleep(0)
            await first.close()
            await asyncio.wait([task for hub in others if (task := entry_of(hub).starting)])
            assert sorted(entry_of(hub).status.state for hub in others) == ["known", "ready"]

    asyncio.run(scene())

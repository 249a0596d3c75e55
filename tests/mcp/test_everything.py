"""The protocol's own sample server, from npm, in the sandbox of a session."""

from __future__ import annotations

import asyncio

from mainspring.mcp.settings import McpServerSettings
from tests.mcp.conftest import Desk, call
from tests.npm import MODULES, NODE, needs

SERVER = MODULES / "@modelcontextprotocol/server-everything/dist/index.js"


@needs(SERVER)
def test_the_sample_server_is_called_and_shows_a_picture_and_progress(desk: Desk) -> None:
    given = McpServerSettings(command=str(NODE), args=(str(SERVER), "stdio"), network=False)
    desk.servers = {"all": given}
    steps = {"duration": 0.2, "steps": 2}
    asyncio.run(
        desk.ask(
            call("mcp__all__get-sum", a=4, b=5),
            call("mcp__all__get-tiny-image"),
            call("mcp__all__trigger-long-running-operation", **steps),
            "done",
        )
    )
    added, picture, long = asyncio.run(desk.ended())
    assert (added.outcome, "9" in added.output) == ("ok", True)
    assert len(picture.media) == 1
    assert long.outcome == "ok"

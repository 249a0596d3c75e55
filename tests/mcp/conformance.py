"""Our client for the protocol's own conformance suite, through the same hub and broker as sessions:

    node …/conformance/dist/index.js client --command "python tests/mcp/conformance.py" --requirements 2026-07-28

The address of the suite's server is the last argument. Every tool is called with values made from its schema,
questions are accepted with their defaults, and logins are made at once. docs/mcp.md says what fails.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.mcp import build_hub, servers_in
from mainspring.app.operations.mcp_login import log_in
from mainspring.mcp import wire
from mainspring.mcp.hub import Listener
from mainspring.mcp.link import McpFailed
from mainspring.mcp.settings import McpServerSettings, McpSettings
from mainspring.settings import load_config

EXAMPLES: dict[str, Any] = {"number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}


async def main(url: str, folder: Path) -> None:
    config = load_config({**os.environ, "MAINSPRING_HOME": str(folder)})
    mcp = McpSettings(servers={"suite": McpServerSettings(url=url)}, project_servers=False)
    config = msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, mcp=mcp))
    if "auth" in os.environ.get("MCP_CONFORMANCE_SCENARIO", ""):
        await log_in(config, folder, "suite", visit)
    hub = build_hub(servers_in(folder, config).servers, folder, "auto", config)
    (entry,) = hub.entries.values()
    try:
        await hub.ready(entry, within_s=60)
        for tool in entry.offers.tools:
            fields: dict[str, Any] = tool.get("inputSchema", {}).get("properties") or {}
            arguments = {name: example(schema) for name, schema in fields.items()}
            message = wire.CallServerTool(server="suite", tool=tool["name"], arguments=arguments)
            try:
                await hub.ask(entry, message, Listener(lambda _: None, accept))
            except McpFailed as error:
                print(f"{tool['name']}: {error.message}", file=sys.stderr)
    finally:
        await hub.close()


def example(schema: dict[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    return schema["enum"][0] if "enum" in schema else EXAMPLES.get(schema.get("type", ""), "x")


async def accept(asked: wire.ServerAsks) -> wire.AnswerServer:
    fields: dict[str, Any] = asked.schema.get("properties", {})
    content = {name: schema["default"] for name, schema in fields.items() if "default" in schema}
    return wire.AnswerServer(key=asked.key, action="accept", content=content)


def visit(url: str) -> None:
    threading.Thread(target=lambda: urllib.request.urlopen(url).read(), daemon=True).start()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(sys.argv[-1], Path(name)))

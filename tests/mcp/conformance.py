"""Our client for the protocol's own conformance suite, through the same hub and broker as sessions:

    node …/conformance/dist/index.js client --command "python tests/mcp/conformance.py" --requirements 2026-07-28

The address of the suite's server is the last argument. Every tool is called with values made from its schema,
questions are accepted with their defaults, and logins are made at once. docs/mcp.md says what fails.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
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
from mainspring.settings import Config, load_config

EXAMPLES: dict[str, Any] = {"number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}


SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
CIMD = "https://conformance-test.local/client-metadata.json"  # the only one that the suite knows
AT_ONCE = 3


async def main(url: str, folder: Path) -> None:
    config = load_config({**os.environ, "MAINSPRING_HOME": str(folder)})
    client: dict[str, Any] = {
        name: CONTEXT[name] for name in ("client_id", "client_secret") if name in CONTEXT
    }
    if SCENARIO == "auth/basic-cimd":
        client = {"client_id": CIMD}
    mcp = McpSettings(servers={"suite": McpServerSettings(url=url, **client)}, project_servers=False)
    config = msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, mcp=mcp))
    if "auth" in SCENARIO:
        await log_in(config, folder, "suite", visit)
    if await call_all(config, folder) == "auth":  # a call needs more than the login asked for
        await log_in(config, folder, "suite", visit)
        await call_all(config, folder)


async def call_all(config: Config, folder: Path) -> str:
    """Calls what the suite wants called, or every tool; gives the reason when one failed."""
    hub = build_hub(servers_in(folder, config).servers, folder, "auto", config)
    (entry,) = hub.entries.values()
    reason = ""
    try:
        await hub.ready(entry, within_s=60)
        wanted: list[tuple[str, dict[str, Any]]] = [
            (each["name"], each["arguments"]) for each in CONTEXT.get("toolCalls", ())
        ]
        for name, arguments in wanted or map(example_call, entry.offers.tools):
            message = wire.CallServerTool(server="suite", tool=name, arguments=arguments)
            try:
                await hub.ask(entry, message, Listener(lambda _: None, accept))
            except McpFailed as error:
                reason = error.reason
                print(f"{name}: {error.reason}: {error.message}", file=sys.stderr)
    finally:
        await hub.close()
    return reason


def example_call(tool: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = tool.get("inputSchema", {}).get("properties") or {}
    return tool["name"], {name: example(schema) for name, schema in fields.items()}


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


def place() -> Any:
    """Held while this client runs: the suite starts all clients at once, and counts how long each takes."""
    for number in itertools.count():
        file = open(Path(tempfile.gettempdir()) / f"mainspring-conformance-{number % AT_ONCE}.lock", "w")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if number < AT_ONCE else 0))
        except BlockingIOError:
            continue
        return file
    return None


if __name__ == "__main__":
    with place(), tempfile.TemporaryDirectory() as name:
        asyncio.run(main(sys.argv[-1], Path(name)))

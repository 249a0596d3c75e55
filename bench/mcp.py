"""MCP servers: what five dead ones cost the first request, what a call costs over the server's own time, and
what 250 tools add to a prompt."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.measure import row
from mainspring.app import build
from mainspring.app.mcp import build_hub, servers_in
from mainspring.app.mcp_tools import open_servers
from mainspring.app.operations.mcp_servers import ask_offers
from mainspring.mcp import wire
from mainspring.mcp.settings import McpServerSettings, McpSettings
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.settings import Config, load_config
from mainspring.testing.memory import MemorySessions
from mainspring.testing.replies import scripted
from mainspring.tools.schema import spec_of

PEER = Path(__file__).parent.parent / "tests" / "mcp" / "peer.py"
ROUNDS = 9
CALLS = 300
BYTES_PER_TOKEN = 4


def main() -> None:
    none, dead = first_requests()
    row(
        "first request, five dead MCP servers",
        f"{dead:.0f} ms",
        f"{dead - none:+.0f} ms",
        "target +50 ms",
    )
    ours, own = asyncio.run(call_ms()), own_ms()
    row("a call of an MCP tool", f"{ours:.1f} ms", f"{ours - own:.1f} ms over its server", "target 5 ms")
    plain, new = session_new_ms(0), session_new_ms()
    row(
        "session/new of ACP, five dead MCP servers",
        f"{new:.0f} ms",
        f"{plain:.0f} ms without",
        "target 300 ms",
    )
    tokens = asyncio.run(many_tokens())
    row("250 tools of an MCP server", f"{tokens:,.0f} tokens", "", "target 1,500")


def settings(folder: Path, **kinds: str) -> Config:
    servers = {
        name: McpServerSettings(command=sys.executable, args=(str(PEER), kind), network=False)
        for name, kind in kinds.items()
    }
    config = load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"})
    mcp = McpSettings(servers=servers, project_servers=False)
    return msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, mcp=mcp))


def first_requests() -> tuple[float, float]:
    """Milliseconds until the first request, without servers and with five dead ones, in turns."""
    dead = {f"dead{number}": "dead" for number in range(5)}
    asyncio.run(first_request({}))
    pairs = [(asyncio.run(first_request({})), asyncio.run(first_request(dead))) for _ in range(ROUNDS)]
    none, with_dead = zip(*pairs, strict=True)
    return statistics.median(none), statistics.median(with_dead)


async def first_request(kinds: dict[str, str]) -> float:
    at: list[float] = []

    def on_request(_: Request) -> None:
        at.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "workspace").mkdir()
        model = ScriptedModel(Script(replies=scripted(("done",))), on_request=on_request)
        began = time.perf_counter()
        async with build.open(
            folder / "workspace",
            model=model,
            config=settings(folder, **kinds),
            sessions=MemorySessions(folder / "sessions"),
        ) as session:
            await session.ask("go on")
    return (at[0] - began) * 1000


async def call_ms() -> float:
    with tempfile.TemporaryDirectory() as name:
        config = settings(Path(name), peer="handshake")
        hub = build_hub(servers_in(Path(name), config).servers, Path(name), "auto", config)
        (entry,) = hub.entries.values()
        try:
            await hub.ready(entry)
            times: list[float] = []
            for number in range(CALLS):
                began = time.perf_counter()
                message = wire.CallServerTool(server="peer", tool="echo", arguments={"number": number})
                await hub.ask(entry, message)
                times.append((time.perf_counter() - began) * 1000)
        finally:
            await hub.close()
    return statistics.median(times)


def own_ms() -> float:
    """The same call over plain pipes."""
    server = subprocess.Popen(
        [sys.executable, str(PEER), "handshake"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    times: list[float] = []
    for number in range(CALLS):
        params = {"name": "echo", "arguments": {"number": number}}
        asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        began = time.perf_counter()
        server.stdin.write(json.dumps(asked).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
        times.append((time.perf_counter() - began) * 1000)
    server.kill()
    server.wait()
    return statistics.median(times)


def session_new_ms(servers: int = 5) -> float:
    """How long an editor waits for `session/new` with servers of its own; the process has started before, and
    all sessions stay open."""
    with tempfile.TemporaryDirectory() as name:
        home, place = str(Path(name) / "home"), Path(name) / "workspace"
        place.mkdir()
        agent = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "mainspring",
                "acp",
                "--model",
                "openai-compatible@http://127.0.0.1:9#none",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=place,
            env={"MAINSPRING_HOME": home, "PATH": "/usr/bin:/bin"},
        )
        writing, reading = agent.stdin, agent.stdout
        assert writing is not None
        assert reading is not None
        dead = [
            {"name": f"dead{number}", "command": sys.executable, "args": [str(PEER), "dead"], "env": []}
            for number in range(servers)
        ]
        times: list[float] = []

        def ask(method: str, params: dict[str, object]) -> dict[str, str]:
            began = time.perf_counter()
            message = {"jsonrpc": "2.0", "id": len(times), "method": method, "params": params}
            writing.write(json.dumps(message).encode() + b"\n")
            writing.flush()
            for line in reading:
                answer = json.loads(line)
                if answer.get("id") == len(times):
                    times.append((time.perf_counter() - began) * 1000)
                    return answer["result"]
            raise EOFError(method)

        ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        for _ in range(ROUNDS):
            ask("session/new", {"cwd": str(place), "mcpServers": dead})
        agent.kill()
        agent.communicate()
    return statistics.median(times[1:])


async def many_tokens() -> float:
    with tempfile.TemporaryDirectory() as name:
        config = settings(Path(name), many="many")
        (server,) = servers_in(Path(name), config).servers
        await ask_offers(config, Path(name), server)
        shown = open_servers(Path(name), "auto", "", config).tools(200_000)
    return len(msgspec.json.encode([spec_of(tool) for tool in shown])) / BYTES_PER_TOKEN


if __name__ == "__main__":
    main()

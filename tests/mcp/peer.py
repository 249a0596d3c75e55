"""MCP servers for tests, one for each thing that can happen: `python peer.py KIND`.

Those on the SDK speak both versions of the protocol. The others write what they write by hand.
"""

import base64
import json
import os
import sys
import time
from typing import Any

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def sdk(tools: int = 0, port: int = 0, is_sse: bool = False) -> None:
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp.server.mcpserver.prompts.base import UserMessage
    from pydantic import BaseModel

    server = MCPServer("peer", version="1.2", instructions="A peer for tests.")

    class Choice(BaseModel):
        color: str

    @server.tool()
    def add(a: int, b: int) -> str:
        """Adds two numbers."""
        return f"sum {a + b}"

    @server.tool()
    def environment() -> str:
        """Shows the variables of this process."""
        return json.dumps(dict(os.environ))

    @server.tool()
    def picture() -> Image:
        """Shows a picture."""
        return Image(data=PNG, format="png")

    @server.tool()
    def large(megabytes: int) -> str:
        """Gives a long text."""
        return "x" * (megabytes << 20)

    @server.tool()
    def fail() -> str:
        """Fails."""
        raise RuntimeError("it was meant to fail")

    @server.tool()
    def die() -> str:
        """Ends this process."""
        os._exit(3)

    @server.tool()
    def write(path: str, text: str) -> str:
        """Writes a file."""
        with open(path, "w") as file:
            file.write(text)
        return "written"

    @server.tool()
    async def slow(steps: int, ctx: Context[Any, Any]) -> str:
        """Reports progress, then answers."""
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        return "slowly done"

    @server.tool()
    async def ask(ctx: Context[Any, Any]) -> str:
        """Asks a person."""
        answer = await ctx.elicit("Which color?", Choice)
        return f"{answer.action} {answer.data.color if answer.action == 'accept' else ''}".strip()

    @server.tool()
    async def hang(file: str) -> str:
        """Never answers; says in a file that it began, and that it was cancelled."""
        import anyio

        with open(file, "w") as told:
            told.write("began")
        try:
            await anyio.sleep_forever()
        except BaseException:
            with open(file, "w") as told:
                told.write("cancelled")
            raise
        return ""

    @server.resource("note://{name}")
    def note(name: str) -> str:
        """A note."""
        return f"the note {name}"

    @server.resource("static://readme")
    def readme() -> str:
        """A text."""
        return "read me"

    @server.prompt()
    def review(code: str) -> list[UserMessage]:
        """Reviews code."""
        return [UserMessage(f"Please review: {code}")]

    for number in range(tools):

        def numbered(query: str, limit: int = 10, number: int = number) -> str:
            return f"tool {number}: {query}"

        server.add_tool(
            numbered,
            name=f"search_the_collection_number_{number}",
            description=f"Searches collection {number} for documents that match a query, newest first, with their"
            " titles, authors, dates and a short excerpt of the passage that was found.",
        )
    if port:
        import anyio

        run = server.run_sse_async if is_sse else server.run_streamable_http_async
        print("listening", file=sys.stderr, flush=True)
        anyio.run(lambda: run(host="127.0.0.1", port=port))
    server.run("stdio")


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def handshake(version: str = "2025-11-25", schema: Any = None, noise: bool = False) -> None:
    """A server of the older protocol, by hand, with one tool `echo`."""
    for line in sys.stdin:
        message = json.loads(line)
        if noise:
            print("Listening on port 3000...")
            print('{"jsonrpc": "1.0", "what": []}')
            sys.stdout.buffer.write(b"\xff\xfe\x00 binary \x80\n")
            sys.stdout.flush()
        match message.get("method"):
            case "initialize":
                result = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "by hand", "version": "0"},
                }
                say({"id": message["id"], "result": result})
            case "tools/list":
                tool = {
                    "name": "echo",
                    "description": "Says it.",
                    "inputSchema": schema or {"type": "object"},
                }
                say({"id": message["id"], "result": {"tools": [tool]}})
            case "tools/call" if message["params"]["name"] == "ask":
                say({"id": "asked", "method": "elicitation/create", "params": COLOR})
                given = json.loads(sys.stdin.readline())["result"]
                text = f"{given['action']} {given.get('content', {}).get('color', '')}".strip()
                say({"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}})
            case "tools/call":
                text = json.dumps(message["params"].get("arguments"))
                content = [{"type": "text", "text": f"said {text}"}]
                say({"id": message["id"], "result": {"content": content}})
            case _ if "id" in message:
                say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            case _:
                pass


COLOR = {
    "message": "Which color?",
    "requestedSchema": {
        "type": "object",
        "properties": {"color": {"type": "string"}},
        "required": ["color"],
    },
}
RECURSIVE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/node"}, "self": {"$ref": "#"}, "text": {"type": "string"}},
    "required": ["text"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        }
    },
}


def main(kind: str) -> None:
    match kind:
        case "sdk":
            sdk()
        case "http" | "sse":
            sdk(port=int(sys.argv[2]), is_sse=kind == "sse")
        case "many":
            sdk(250)
        case "silent":
            print("waiting for the moon", file=sys.stderr, flush=True)
            while True:
                time.sleep(3600)
        case "garbage":
            while True:
                print("this is not the protocol", flush=True)
                sys.stdin.readline()
        case "dead":
            print("no database here", file=sys.stderr, flush=True)
            sys.exit(7)
        case "handshake":
            handshake()
        case "noisy":
            handshake(noise=True)
        case "recursive":
            handshake(schema=RECURSIVE)
        case "future":
            handshake("2099-01-01")
        case _:
            raise SystemExit(f"no such peer: {kind}")


if __name__ == "__main__":
    main(sys.argv[1])

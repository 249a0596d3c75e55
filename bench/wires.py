"""What a wire costs: CPU per streamed chunk, building a request from a long history, and the first request.

Only the client's CPU is counted; the server is another process. The floor is a bare decode of the same bytes.
`one by one` sends each chunk on its own, as a model does that is slower than we are: that costs a wake-up
each, so it is compared with bare reads.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bench.measure import by_turns, command_s, median, ms, python, row, timing
from bench.serving import served
from mainspring.events import CallAsked, ToolSpec
from mainspring.models import AssistantMessage, Request, ResultsMessage, ToolResult, UserMessage
from mainspring.models.retry import Retried
from mainspring.models.wires.anthropic import AnthropicModel
from mainspring.models.wires.chat import ChatModel
from mainspring.models.wires.gemini import GeminiModel
from mainspring.models.wires.responses import ResponsesModel
from mainspring.models.wires.wire import Wire

CHUNKS = 20_000
SLOW_CHUNKS = 2_000
TOOL = ToolSpec(name="nothing", description="Does nothing.", parameters={"type": "object", "properties": {}})

WIRES: dict[str, Callable[[str], Wire]] = {
    "chat": lambda address: ChatModel("m", f"{address}/v1", "k", "m"),
    "responses": lambda address: ResponsesModel("m", f"{address}/v1", "k", "gpt-5"),
    "anthropic": lambda address: AnthropicModel("m", address, "k", "claude-opus-5"),
    "gemini": lambda address: GeminiModel("m", f"{address}/v1beta", "k", "gemini-3-pro"),
}


def main() -> None:
    row("bare decode of a chunk", us(bare_decode_s()))
    fast = {"replies": [{"text": "four" * CHUNKS, "chunk_size": 4}]}
    slow = {"replies": [{"text": "four" * SLOW_CHUNKS, "chunk_size": 4, "delay_s": 0.0002}]}
    with served(fast) as server:
        address = server.url.removesuffix("/v1")
        for name, build in WIRES.items():
            cost_s = asyncio.run(per_chunk_s(build(address), CHUNKS))
            row(f"{name}: CPU per chunk, {CHUNKS} chunks", us(cost_s), "", "target 20 µs")
    with served(slow) as server:
        address = server.url.removesuffix("/v1")
        cost_s = asyncio.run(per_chunk_s(WIRES["chat"](address), SLOW_CHUNKS))
        floor_s = asyncio.run(bare_read_s(address))
        against = f"{cost_s / floor_s:.1f} x bare reads"
        row(f"chat: CPU per chunk, {SLOW_CHUNKS} one by one", us(cost_s), against)
    for name, build in WIRES.items():
        short, long = build_s(build, 100), build_s(build, 10_000)
        row(f"{name}: body of 100 messages, of 10,000", us(short), us(long), "without encoding them")
    first_request()


def bare_decode_s() -> float:
    chunk = b'{"id":"x","created":0,"choices":[{"index":0,"delta":{"content":"four"},"finish_reason":null}]}'
    start = time.process_time()
    for _ in range(CHUNKS):
        msgspec.json.decode(chunk)
    return (time.process_time() - start) / CHUNKS


async def bare_read_s(address: str) -> float:
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = b'{"messages":[],"stream":true}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n"
    start = time.process_time()
    writer.write(head.encode() + body)
    received = b""
    while not received.endswith(b"0\r\n\r\n"):
        received = await reader.read(65536)
    writer.close()
    return (time.process_time() - start) / SLOW_CHUNKS


async def per_chunk_s(wire: Wire, chunks: int) -> float:
    model = Retried(wire, heal=wire.heal)
    costs: list[float] = []
    for _ in range(3):
        count = 0
        start = time.process_time()
        async for _ in model.stream(Request("s", (), [model.encode(UserMessage("hi"))])):
            count += 1
        costs.append((time.process_time() - start) / chunks)
        assert count > chunks
    await model.close()
    return min(costs)


def build_s(build: Callable[[str], Wire], messages: int) -> float:
    wire = build("http://127.0.0.1:9")
    call = CallAsked(call="c00001000", name="nothing", arguments="{}")
    pair: list[Any] = [AssistantMessage((call,)), ResultsMessage((ToolResult("c00001000", "nothing", "ok"),))]
    encoded = [wire.encode(message) for message in pair] * (messages // 2)
    request = Request("system", (TOOL,), encoded)
    wire.body(request)
    times: list[float] = []
    for _ in range(50):
        start = time.perf_counter()
        wire.body(request)
        times.append(time.perf_counter() - start)
    return median(times)


def first_request() -> None:
    code = (
        "import asyncio, sys, time\n"
        "from mainspring.models import Request, UserMessage\n"
        "from mainspring.models.connect import connect\n"
        "async def run():\n"
        "    start = time.perf_counter()\n"
        "    model = connect('openai-compatible@' + sys.argv[1] + '#m', {})\n"
        "    async for _ in model.stream(Request('s', (), [model.encode(UserMessage('hi'))])):\n"
        "        print(time.perf_counter() - start)\n"
        "        break\n"
        "asyncio.run(run())\n"
    )
    with served({"replies": [{"text": "x"}]}) as server:
        taken = [printed_s(code, server.url) for _ in range(5)]
        timing("first reply after imports", taken, target="target 30 ms")
    loading = python("-c", "import mainspring.models.connect")
    loaded, floor = by_turns(7, lambda: command_s(loading), lambda: command_s(python("-c", "pass")))
    row("import of all wires", ms(median(loaded) - median(floor)))


def printed_s(code: str, url: str) -> float:
    return float(subprocess.run(python("-c", code, url), capture_output=True, text=True, check=True).stdout)


def us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs"


if __name__ == "__main__":
    main()

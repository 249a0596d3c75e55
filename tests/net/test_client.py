"""What a server that a person named answers is bounded, also as a stream of events."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.net.client import stream_events
from mainspring.net.http import NotHttp


def test_an_event_that_has_no_end_is_a_fault_of_the_server() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        try:
            for _ in range(40):
                writer.write(b"x" * (1 << 20))
                await writer.drain()
        except ConnectionError:
            pass  # the client had enough
        finally:
            writer.close()

    async def follow() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            stream = stream_events(f"http://127.0.0.1:{port}/", environment={}, headers={}, silence_s=20)
            with pytest.raises(NotHttp, match="has no end"):
                async for _ in stream:
                    pass

    asyncio.run(follow())

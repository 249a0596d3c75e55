"""Stands between programs and a server, and cuts their connections."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress


class CuttingProxy:
    """Cuts a connection instead of passing on a `share` of the answers, the answer to one message that holds
    `cut_at`, and all of them when it is told to. Answers wait until they may pass (`passing`). Counts what
    was `sent` to the server, a message or several at once."""

    def __init__(self, port: int, seed: int, *, share: float = 0.04) -> None:
        self._port, self._random, self.share = port, random.Random(seed), share
        self.cuts, self.cut_at, self._is_due = 0, b"", False
        self.sent = 0
        self.passing = asyncio.Event()
        self.passing.set()
        self.asked = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self) -> tuple[asyncio.Server, int]:
        server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        return server, server.sockets[0].getsockname()[1]

    def cut_all(self) -> None:
        for each in self._open:
            self.cuts += 1
            each.transport.abort()

    async def end(self) -> None:
        """Cuts all, and returns when nothing is open any more."""
        self.cut_all()
        while self._open:
            await asyncio.sleep(0.01)

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_server, from_us = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:  # the server is down
            writer.transport.abort()
            return
        self._open.add(writer)
        asking = asyncio.create_task(self._pass_on(reader, from_us))
        with suppress(OSError):
            while answer := await to_server.read(65536):
                if self._is_due or self._random.random() < self.share:
                    self._is_due, self.cuts = False, self.cuts + 1
                    break
                await self.passing.wait()
                writer.write(answer)
        asking.cancel()
        self._open.discard(writer)
        for each in (writer, from_us):
            each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while asked := await reader.read(65536):
                if self.cut_at and self.cut_at in asked:
                    self._is_due, self.cut_at = True, b""
                writer.write(asked)
                self.sent += 1
                self.asked.set()
        writer.transport.abort()

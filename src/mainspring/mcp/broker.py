"""The process that talks to MCP servers: `python -m mainspring.mcp.broker FD`, with our socket as its
standard input. It alone loads the SDK, which costs more than half a second and 57 MB. It ends when we do.

Commands of servers are started by us, in the sandbox; their pipes are handed over. Requests run side by side.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from mainspring.mcp import wire
from mainspring.mcp.connection import McpConnection, describe_error

_MAX_LINE = 256 * 1024 * 1024
_DECODE = msgspec.json.Decoder(wire.ToBroker).decode


class Broker:
    def __init__(self, writer: asyncio.StreamWriter, descriptors: socket.socket) -> None:
        self._writer = writer
        self._descriptors = descriptors
        self._connections: dict[str, McpConnection] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def say(self, message: wire.FromBroker) -> None:
        self._writer.write(msgspec.json.encode(message) + b"\n")

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Takes what is asked until nobody asks any more."""
        while line := await reader.readline():
            message = _DECODE(line)
            match message:
                case wire.CancelRequest():
                    if task := self._tasks.get(message.id):
                        task.cancel()
                case wire.AnswerServer():
                    for connection in self._connections.values():
                        connection.answer(message)
                case wire.DisconnectServer():
                    if connection := self._connections.pop(message.server, None):
                        connection.close()
                case wire.ConnectServer():
                    self._begin(message.id, self._connect(message, self._pipes(message)))
                case _:
                    self._begin(message.id, self._ask(message))

    def _begin(self, number: int, work: Coroutine[Any, Any, bytes]) -> None:
        self._tasks[number] = asyncio.create_task(self._run(number, work))

    async def _run(self, number: int, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            self.say(wire.RequestDone(id=number, result=msgspec.Raw(await work)))
            await self._writer.drain()
        except asyncio.CancelledError:
            pass  # whoever cancelled it waits for nothing
        except BaseException as error:  # noqa: BLE001 - whatever a server or the SDK does is an answer to us
            reason, text = describe_error(error)
            self.say(wire.RequestRefused(id=number, reason=reason, message=text))
        finally:
            self._tasks.pop(number, None)

    def _pipes(self, message: wire.ConnectServer) -> tuple[int, int] | None:
        if message.transport != "stdio":
            return None
        _, found, _, _ = socket.recv_fds(self._descriptors, 64, 2)
        reading, writing = found
        return reading, writing

    async def _connect(self, message: wire.ConnectServer, pipes: tuple[int, int] | None) -> bytes:
        if before := self._connections.pop(message.server, None):
            before.close()
        connection = McpConnection(message, self.say, pipes)
        self._connections[message.server] = connection
        try:
            await connection.begin()
        except BaseException:
            connection.close()
            raise
        return b"null"

    async def _ask(
        self, message: wire.ListOffers | wire.CallServerTool | wire.ReadServerResource | wire.GetServerPrompt
    ) -> bytes:
        connection = self._connections.get(message.server)
        if connection is None:
            raise ConnectionError("it is not connected")
        match message:
            case wire.ListOffers():
                return msgspec.json.encode(await connection.offers())
            case wire.CallServerTool():
                return await connection.call(message)
            case wire.ReadServerResource():
                return await connection.read(message.uri)
            case wire.GetServerPrompt():
                return await connection.prompt(message.name, message.arguments)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        left = [connection.task for connection in self._connections.values() if connection.task]
        if left:
            await asyncio.wait(left, timeout=1.0)


async def main(descriptor: int) -> None:
    async with AsyncExitStack() as stack:
        control = stack.enter_context(socket.socket(fileno=os.dup(0)))
        descriptors = stack.enter_context(socket.socket(fileno=descriptor))
        reader, writer = await asyncio.open_connection(sock=control, limit=_MAX_LINE)
        broker = Broker(writer, descriptors)
        try:
            await broker.serve(reader)
        finally:
            await broker.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    try:
        asyncio.run(main(int(sys.argv[1])))
    except (ConnectionError, KeyboardInterrupt):
        os._exit(0)  # whoever asked is gone
    os._exit(0)  # nothing is kept that an orderly end would save, and threads of libraries may linger

"""The protocol's messages as lines. A line that is no message is answered with an error; the talk goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mainspring.events.decoding import DECODE_ERRORS
from mainspring.protocols.lines import LineTooLong, StandardLines

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class LineMessages:
    """A transport of the protocol's package."""

    def __init__(self, lines: StandardLines) -> None:
        self._lines = lines
        self._unanswered = 0
        self._is_answered = asyncio.Event()
        self._is_answered.set()

    async def answered(self) -> None:
        """Returns when every request that came has its answer."""
        await self._is_answered.wait()

    async def send(self, message: dict[str, Any]) -> None:
        try:
            await self._lines.write(msgspec.json.encode(message))
        finally:
            if "method" not in message and message["id"] is not None:
                self._count(-1)

    async def receive(self) -> dict[str, Any] | None:
        while True:
            try:
                line = await self._lines.read()
            except LineTooLong:
                await self._refuse(_INVALID_REQUEST, "The message is longer than 64 MB.")
                continue
            if line is None:
                return None
            if not line.strip():
                continue
            try:
                message = msgspec.json.decode(line)
            except DECODE_ERRORS as error:
                await self._refuse(_PARSE_ERROR, f"The line is not JSON: {error}.")
                continue
            if isinstance(message, dict) and _is_message(message):  # pyright: ignore[reportUnknownArgumentType]
                if "method" in message and message.get("id") is not None:  # pyright: ignore[reportUnknownMemberType]
                    self._count(1)
                return message  # pyright: ignore[reportUnknownVariableType]
            await self._refuse(
                _INVALID_REQUEST,
                "The line is not one message of JSON-RPC 2.0: an object with a method or an id.",
            )

    async def close(self) -> None:
        return

    def _count(self, change: int) -> None:
        self._unanswered += change
        (self._is_answered.clear if self._unanswered else self._is_answered.set)()

    async def _refuse(self, code: int, message: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})


def _is_message(message: dict[Any, Any]) -> bool:
    if "method" in message:
        return isinstance(message["method"], str) and not isinstance(
            message.get("id"), bool | list | dict | float
        )
    return "id" in message and ("result" in message or "error" in message)

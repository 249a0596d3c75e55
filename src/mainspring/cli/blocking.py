"""Waits for operations from commands, which have no event loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import nullcontext
from typing import TypeVar

T = TypeVar("T")


def iterate(items: AsyncGenerator[T], runner: asyncio.Runner | None = None) -> Iterator[T]:
    """What an operation gives, one after the other; in a loop that is running other things, by its runner."""

    async def following() -> tuple[T, ...]:
        async for item in items:
            return (item,)
        return ()

    async def close() -> None:
        await items.aclose()

    with nullcontext(runner) if runner else asyncio.Runner() as running:
        try:
            while found := running.run(following()):
                yield from found
        finally:
            running.run(close())

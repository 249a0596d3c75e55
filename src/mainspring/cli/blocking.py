"""Waits for operations from commands, which have no event loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import TypeVar

T = TypeVar("T")


def iterate(items: AsyncGenerator[T], runner: asyncio.Runner | None = None) -> Iterator[T]:
    """What an operation gives, one after the other; in a loop that is running other things, by its runner."""
    if runner is not None:
        yield from _iterate(items, runner)
        return
    with asyncio.Runner() as own:
        yield from _iterate(items, own)


def _iterate(items: AsyncGenerator[T], runner: asyncio.Runner) -> Iterator[T]:
    async def following() -> tuple[T, ...]:
        async for item in items:
            return (item,)
        return ()

    try:
        while found := runner.run(following()):
            yield from found
    finally:
        runner.run(_close(items))


async def _close(items: AsyncGenerator[T]) -> None:
    await items.aclose()

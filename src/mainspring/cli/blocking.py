"""Waits for operations from commands, which have no event loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import nullcontext
from typing import Any, TypeVar

import click

T = TypeVar("T")
LOOP = "mainspring.loop"
"""Where the context of a command has the `asyncio.Runner` that logged it."""


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """What a command is there for, in the loop in which it was logged."""
    runner: asyncio.Runner = click.get_current_context().meta[LOOP]
    return runner.run(work)


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

"""The built-in engine: our own loop, which begins with what the task names."""

from __future__ import annotations

from mainspring.turns.loop import run_turn
from mainspring.turns.priming import prime
from mainspring.turns.runtime import Runtime

__all__ = ["NAME", "take_turn"]

NAME = "builtin"


async def take_turn(runtime: Runtime) -> None:
    await prime(runtime)
    await run_turn(runtime)

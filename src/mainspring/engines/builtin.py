"""The built-in engine: our own loop, which begins with what the task names. What takes turns is loaded
while a session is opened, or with its first turn.
"""

from __future__ import annotations

from importlib import import_module

from mainspring.turns.runtime import Runtime

__all__ = ["NAME", "load", "take_turn"]

NAME = "builtin"
_PRIMING, _LOOP = "mainspring.turns.priming", "mainspring.turns.loop"


def load() -> None:
    """Loads what takes turns; may be called in a thread."""
    for module in (_PRIMING, _LOOP):
        import_module(module)


async def take_turn(runtime: Runtime) -> None:
    await import_module(_PRIMING).prime(runtime)
    await import_module(_LOOP).run_turn(runtime)

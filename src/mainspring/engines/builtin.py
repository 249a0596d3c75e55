"""The built-in engine: our own loop."""

from mainspring.turns.loop import run_turn as take_turn

__all__ = ["NAME", "take_turn"]

NAME = "builtin"

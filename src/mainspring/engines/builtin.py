"""The built-in engine: our own loop."""

from mainspring.loop import run_turn as take_turn

__all__ = ["NAME", "take_turn"]

NAME = "builtin"

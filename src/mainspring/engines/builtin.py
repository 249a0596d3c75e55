"""The built-in engine: our own loop."""

from mainspring.loop import run_turn as take_turn

__all__ = ["take_turn"]

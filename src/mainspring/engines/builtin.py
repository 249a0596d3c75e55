"""The built-in engine: our own loop."""

from __future__ import annotations

from mainspring.events import EngineChosen
from mainspring.loop import run_turn
from mainspring.turn import Turn

NAME = "builtin"


async def take_turn(turn: Turn) -> None:
    """Says on record that it takes over, when an outside agent took the turns before."""
    if turn.state.engine.engine not in ("", NAME):
        await turn.emit(EngineChosen(engine=NAME))
    await run_turn(turn)

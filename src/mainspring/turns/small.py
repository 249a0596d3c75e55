"""What turns of the small profile do otherwise."""

from __future__ import annotations

from mainspring.events import EFFECT_SOURCE, NoteAdded
from mainspring.tools import MAX_TEXT
from mainspring.turns.runtime import Runtime

_RESULT_TEXT = 6_000
_IDLE = (
    "You have changed nothing and run nothing. If the task needs that, do it now with the tools; otherwise"
    " repeat your answer."
)


def result_text(runtime: Runtime) -> int:
    """Characters that the model is sent of one call at most."""
    return _RESULT_TEXT if runtime.state.prompt.profile == "small" else MAX_TEXT


async def is_asked_for_effect(runtime: Runtime) -> bool:
    """Asks a model once a turn that wants to end without having used a tool; whether it was asked now."""
    state = runtime.state
    has_acted = state.is_effect_asked or bool(state.ledger.tally("turn").calls)
    if state.prompt.profile != "small" or not state.prompt.tools or has_acted:
        return False
    await runtime.record(NoteAdded(text=_IDLE, source=EFFECT_SOURCE))
    return True

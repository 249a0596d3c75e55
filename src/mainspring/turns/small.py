"""What turns of the small profile do otherwise."""

from __future__ import annotations

from mainspring.events import EFFECT_SOURCE, NoteAdded
from mainspring.tools import MAX_TEXT
from mainspring.turns.runtime import Runtime

_RESULT_TEXT = 6_000
_MAX_SAID_AGAIN = 800
_SAID_AGAIN = "\n--- your task, to be done now\n{task}"
_IDLE = (
    "You have changed nothing and run nothing. If the task needs that, do it now with the tools; otherwise"
    " repeat your answer."
)


def result_text(runtime: Runtime) -> int:
    """Characters that the model is sent of one call at most."""
    return _RESULT_TEXT if runtime.state.prompt.profile == "small" else MAX_TEXT


def said_again(runtime: Runtime, task: str) -> str:
    """A short task once more, behind what it names: small models do what stands last."""
    is_wanted = runtime.state.prompt.profile == "small" and len(task) <= _MAX_SAID_AGAIN
    return _SAID_AGAIN.format(task=task) if is_wanted else ""


async def is_asked_for_effect(runtime: Runtime) -> bool:
    """Asks a model once a turn that wants to end without having used a tool; whether it was asked now."""
    state = runtime.state
    has_acted = state.is_effect_asked or bool(state.ledger.tally("turn").calls)
    if state.prompt.profile != "small" or not state.prompt.tools or has_acted:
        return False
    await runtime.record(NoteAdded(text=_IDLE, source=EFFECT_SOURCE))
    return True

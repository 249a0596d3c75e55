"""The last reply of a turn that must give a structured answer: accepted, asked for once more, or refused."""

from __future__ import annotations

from typing import Any

from mainspring.events import OUTPUT_SOURCE, NoteAdded
from mainspring.tools.output import read_output
from mainspring.turns.endings import End
from mainspring.turns.runtime import Runtime


async def check_output(runtime: Runtime, schema: dict[str, Any]) -> End | None:
    """How the turn ends with its last reply; None when the model was told what is wrong with it."""
    state = runtime.state
    _, problem = read_output(state.last_reply.text, schema)
    if not problem:
        return End("done", "The answer fits its schema.")
    if state.is_output_corrected:
        remedy = "Ask again, give the schema descriptions, or use another model."
        return End("failed", f"The model's answer does not fit the schema: {problem}.", remedy)
    text = f"Your answer does not fit the schema of the output: {problem}. Answer again, with the JSON alone."
    await runtime.record(NoteAdded(text=text, source=OUTPUT_SOURCE))
    return None

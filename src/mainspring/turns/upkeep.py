"""What keeps a turn healthy between two steps: instructions for the files at hand, guards that see when
a model is stuck, and room in its window.

All decide from folds of the journal alone, so a resumed turn decides the same.
"""

from __future__ import annotations

from mainspring.context.prompt import instructions_text
from mainspring.context.values import touched_by
from mainspring.events import Ending, GuardTripped, NoteAdded
from mainspring.folds.processes import news
from mainspring.turns.endings import End
from mainspring.turns.runtime import Runtime

_GROWN = 0.1

_ENDINGS: dict[str, Ending] = {"stall": "blocked"}
_REMEDY = "Look at what it did with `mainspring show`, then resume with a hint or another --model."


async def check_guards(turn: Runtime) -> End | None:
    """Shows the instructions that the last calls came upon, and records what a guard has to say, each once;
    the end of the turn when the model did not listen."""
    if notes := _new_instructions(turn):
        await turn.record(*notes)
    tripped = turn.guards.check()
    if tripped is None:
        return None
    if tripped is not turn.guards.final:
        await turn.record(tripped)
    return _end(tripped) if tripped.is_final else None


async def report_ended_processes(turn: Runtime) -> None:
    """Records what happened outside the conversation since the last step, so that the model is told."""
    await turn.record(*await news(turn.state.processes))


async def compact_if_needed(turn: Runtime) -> End | None:
    """Makes the history short when the next request would not fit, or the last one did not; the end of the
    turn when that is not possible."""
    state, window = turn.state, turn.models.current.context_tokens
    tokens = turn.history.estimated_tokens(state.prompt_size)
    if state.is_overflowing:
        if state.is_shrunk or await turn.compact("overflow") is None:
            return _too_large(turn, tokens, window)
    elif window and _is_due(turn, tokens, window):
        await turn.compact("window")
    else:
        return None
    left = turn.history.estimated_tokens(state.prompt_size)
    return _too_large(turn, left, window) if window and left > window else None


def _new_instructions(turn: Runtime) -> list[NoteAdded]:
    """What the folders of the files that the last calls touched say, unless the model was told already."""
    if turn.workbench.nested is None:
        return []
    found: dict[str, str] = {}
    for asked in turn.state.last_reply.calls:
        touched = touched_by(asked.arguments)
        items = [item for path in touched.paths for item in turn.workbench.nested.for_file(path)]
        items += turn.workbench.nested.for_command(touched.command) if touched.command else []
        found |= {str(item.path): instructions_text(item) for item in items}
    return [
        NoteAdded(text=text, source=source)
        for source, text in found.items()
        if source not in turn.state.note_sources
    ]


def _is_due(turn: Runtime, tokens: int, window: int) -> bool:
    """Not again before something has come since: what cannot get shorter is not asked about at every step."""
    grown = turn.state.compacted_tokens + _GROWN * window if turn.state.compacted_tokens else 0
    return tokens > window or tokens >= max(turn.upkeep.compact_at * window, grown)


def _end(tripped: GuardTripped) -> End:
    return End(_ENDINGS.get(tripped.guard, "failed"), tripped.message, _REMEDY)


def _too_large(turn: Runtime, tokens: int, window: int | None) -> End:
    name = turn.models.current.name
    takes = f"and {name} takes {window:,}" if window else f"and {name} refuses that"
    prompt = int(turn.state.prompt_size / turn.history.bytes_per_token)
    detail = (
        f"The history cannot be made short enough: the next request needs about {tokens:,} tokens ({prompt:,}"
        f" of them for the prompt and its tools), {takes}."
    )
    return End("failed", detail, "Use a model with a larger window, or undo what was said last.")

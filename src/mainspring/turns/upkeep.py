"""What keeps a turn healthy between two steps: instructions for the files at hand, guards that see when
a model is stuck, and room in its window.

All decide from folds of the journal alone, so a resumed turn decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from mainspring.context.prompt import instructions_text
from mainspring.context.values import touched_by
from mainspring.errors import BadRequest, MediaRefused
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallStarted,
    Ending,
    GuardTripped,
    Media,
    MediaLeftOut,
    NoteAdded,
)
from mainspring.folds.processes import news
from mainspring.turns.endings import UNCLEAN, UNREVIEWED, End
from mainspring.turns.runtime import CALLS, Runtime
from mainspring.turns.stuck import lost_attempt, sample_as_usual, take_rung

_GROWN = 0.1
_UNCLEAR = ("", "parameter")
"""Causes of a refusal that may as well be an attachment."""

_ENDINGS: dict[str, Ending] = {"stall": "blocked"}
_REMEDY = "Look at what it did with `mainspring show`, then resume with a hint or another --model."


async def check_guards(runtime: Runtime) -> End | None:
    """Tells hooks of the last calls, shows the instructions that these came upon and what checks and tests
    say to their changes, and records what a guard has to say; the end when the model did not listen."""
    if runtime.hooks and (why := await runtime.hooks.after_calls()):
        return End("interrupted", f"A hook stopped the turn: {why}")
    if notes := _new_instructions(runtime):
        await runtime.record(*notes)
    if runtime.upkeep.checks and (problem := await runtime.upkeep.checks(runtime)):
        return End("failed", problem, UNCLEAN)
    if runtime.state.are_files_changed and runtime.state.last_reply.calls:
        await import_module("mainspring.turns.suite").check_changes(runtime)
    if runtime.upkeep.guard:
        await runtime.upkeep.guard.after_step(runtime)
    if runtime.upkeep.review and (problem := await runtime.upkeep.review(runtime)):
        return End("failed", problem, UNREVIEWED)
    if end := await _lost_attempt(runtime):
        return end
    await sample_as_usual(runtime)
    tripped = runtime.guards.check()
    if tripped is None:
        return None
    if tripped is not runtime.guards.final:
        tripped = await take_rung(runtime, tripped)
    return _end(tripped) if tripped.is_final else None


async def _lost_attempt(runtime: Runtime) -> End | None:
    """The end of an attempt that failed, unless something that the model nearly wrote passes."""
    end = await lost_attempt(runtime)
    if end and await import_module("mainspring.turns.alternatives").try_alternatives(runtime):
        return None
    return end


async def started_with(runtime: Runtime, said: AssistantSaid) -> list[CallStarted]:
    """The starts of those calls that are recorded with their reply. None is when tests should run before
    them: a process that dies in these has begun no call."""
    if _may_change(runtime, said.calls) and (guard := runtime.upkeep.guard) and await guard.is_due(runtime):
        return []
    calls = import_module(CALLS)
    return [calls.start(runtime, each) for each in await calls.startable(runtime, said)]


async def before_calls(runtime: Runtime) -> None:
    """What has to be known before files change."""
    calls = [call.asked for call in runtime.state.open_calls]
    if runtime.upkeep.guard and _may_change(runtime, calls):
        await runtime.upkeep.guard.before_calls(runtime)


async def report_ended_processes(runtime: Runtime) -> None:
    """Records what happened outside the conversation since the last step, so that the model is told."""
    await runtime.record(*await news(runtime.state.processes))


async def tell_unfit_media(runtime: Runtime) -> None:
    """Records which attachments the current model is not sent because it would refuse them."""
    model = runtime.models.current
    for media, attachment in runtime.history.media.take_untold(model.name):
        if problem := model.media_problem(attachment):
            blobs, names = (media.blob.sha256,), (media.name,)
            await runtime.record(MediaLeftOut(blobs=blobs, names=names, reason=problem, model=model.name))


async def leave_out_refused_media(runtime: Runtime, error: MediaRefused | BadRequest) -> None:
    """Leaves out what a provider may have refused, on record; raises the error when nothing is left. When a
    refusal does not say what it is about, that may be an attachment which no request has had before."""
    if isinstance(error, MediaRefused):
        suspects = runtime.history.suspects
    else:
        suspects = [] if error.cause not in _UNCLEAR else runtime.history.new_media
    if not suspects:
        raise error
    await _leave_out(runtime, suspects, error.message)


async def _leave_out(runtime: Runtime, suspects: Sequence[Media], reason: str) -> None:
    left_out = MediaLeftOut(
        blobs=tuple(item.blob.sha256 for item in suspects),
        names=tuple(item.name for item in suspects),
        reason=reason,
        model=runtime.models.current.name,
        is_refused=True,
    )
    await runtime.record(left_out)


async def compact_if_needed(runtime: Runtime) -> End | None:
    """Makes the history short when the next request would not fit, or the last one did not; the end of the
    turn when that is not possible."""
    state, window = runtime.state, runtime.models.current.context_tokens
    tokens = runtime.history.estimated_tokens(state.prompt_size)
    if state.is_overflowing:
        if state.is_shrunk or await runtime.compact("overflow") is None:
            if not (suspects := runtime.history.new_media):
                return _too_large(runtime, tokens, window)
            await _leave_out(runtime, suspects, "the request was too large with it")
    elif window and _is_due(runtime, tokens, window):
        await runtime.compact("window")
    else:
        return None
    left = runtime.history.estimated_tokens(state.prompt_size)
    return _too_large(runtime, left, window) if window and left > window else None


def _may_change(runtime: Runtime, calls: Sequence[CallAsked]) -> bool:
    tools = [runtime.workbench.toolbox.tool(asked.name) for asked in calls]
    return any(tool is not None and tool.effect in ("write", "execute") for tool in tools)


def _new_instructions(runtime: Runtime) -> list[NoteAdded]:
    """What the folders of the files that the last calls touched say, unless the model was told already."""
    if runtime.workbench.nested is None:
        return []
    found: dict[str, str] = {}
    for asked in runtime.state.last_reply.calls:
        touched = touched_by(asked.arguments)
        items = [item for path in touched.paths for item in runtime.workbench.nested.for_file(path)]
        items += runtime.workbench.nested.for_command(touched.command) if touched.command else []
        found |= {str(item.path): instructions_text(item) for item in items}
    return [
        NoteAdded(text=text, source=source)
        for source, text in found.items()
        if source not in runtime.state.note_sources
    ]


def _is_due(runtime: Runtime, tokens: int, window: int) -> bool:
    """Not again before something has come since: what cannot get shorter is not asked about at every step."""
    grown = runtime.state.compacted_tokens + _GROWN * window if runtime.state.compacted_tokens else 0
    return tokens > window or tokens >= max(runtime.upkeep.compact_at * window, grown)


def _end(tripped: GuardTripped) -> End:
    return End(_ENDINGS.get(tripped.guard, "failed"), tripped.message, _REMEDY)


def _too_large(runtime: Runtime, tokens: int, window: int | None) -> End:
    name = runtime.models.current.name
    takes = f"and {name} takes {window:,}" if window else f"and {name} refuses that"
    prompt = int(runtime.state.prompt_size / runtime.history.bytes_per_token)
    detail = (
        f"The history cannot be made short enough: the next request needs about {tokens:,} tokens ({prompt:,}"
        f" of them for the prompt and its tools), {takes}."
    )
    return End("failed", detail, "Use a model with a larger window, or undo what was said last.")

"""How a turn ends: its one last event, and what becomes of calls that are still open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from mainspring.errors import MainspringError, ModelError
from mainspring.events import (
    KEEPS_CALLS_OPEN,
    CallEnded,
    CapScope,
    CapUnit,
    Ending,
    Event,
    TurnEnded,
)
from mainspring.folds.ledger import Refusal
from mainspring.folds.state import OpenCall
from mainspring.turns.runtime import Runtime, time_left

_CANCELLED = "Cancelled while it ran. What it had done by then is not undone."
_UNKNOWN = (
    "The session was interrupted after this call had started, and its outcome is unknown."
    " Look at what it did before you repeat it."
)


UNCLEAN = "`mainspring checks` lists them; resume with a hint, or set `after_change` of `[checks]` to `warn`."
"""What to do about a turn that checks of its changes fail."""


UNREVIEWED = (
    "`mainspring reviews` lists what was found; resume with a hint, or change `before_done` of `[review]`."
)
"""What to do about a turn that a review of its changes fails."""


class End(msgspec.Struct, frozen=True):
    """Why a turn is over, and what a person can do about it."""

    ending: Ending
    detail: str = ""
    remedy: str = ""
    resume_at_us: int | None = None
    scope: CapScope | None = None
    unit: CapUnit | None = None


STOPPED = End("interrupted", "Stopped by request.")


async def run_to_end(runtime: Runtime, work: Callable[[Runtime], Awaitable[End]]) -> None:
    """Does the work of a turn within its time, and records its end whatever happens, unless the journal
    itself fails."""
    left = time_left(runtime)
    allowed = asyncio.timeout(left.time_s if left else None)
    try:
        async with allowed:
            end = await work(runtime)
            while end.ending == "done" and runtime.hooks and await runtime.hooks.before_end():
                end = await work(runtime)
    except TimeoutError:
        if left is None or not allowed.expired():
            raise
        end = refused(left.refusal)
    except asyncio.CancelledError:
        await end_turn(runtime, STOPPED)
        raise
    except ModelError as error:
        end = End("failed", error.message, error.remedy)
    await end_turn(runtime, end)


def refused(refusal: Refusal) -> End:
    """The end of a turn for which nothing is left."""
    return End(refusal.ending, refusal.message, refusal.remedy, scope=refusal.scope, unit=refusal.unit)


async def end_turn(runtime: Runtime, end: End) -> None:
    """Closes the open calls and the turn in one commit."""
    state = runtime.state
    closing: list[Event] = []
    if end.ending not in KEEPS_CALLS_OPEN:
        closing += closed_calls(runtime)
    ended = TurnEnded(
        turn=state.turn,
        ending=end.ending,
        detail=end.detail,
        remedy=end.remedy,
        steps=state.turn_steps,
        usage=state.turn_usage,
        cost_usd=state.turn_cost_usd,
        resume_at_us=end.resume_at_us,
        scope=end.scope,
        unit=end.unit,
        origin=runtime.stopped_by if end.ending == "interrupted" else None,
    )
    runtime.stopped_by = None
    await runtime.record(*closing, ended)
    await runtime.recorder.anchor()


def failed(error: Exception) -> End:
    """The end of a turn that an error broke off: one for people, or a fault of ours."""
    if isinstance(error, MainspringError):
        return End("failed", error.message, error.remedy)
    return End("failed", f"mainspring itself failed: {error!r}.", "The traceback is in the journal.")


def closed_calls(runtime: Runtime) -> list[CallEnded]:
    """The ends of the open calls, none of which is run to its end."""
    return [
        lost(call) if call.is_lost else _cancelled(call, is_begun=call.asked.call not in runtime.started)
        for call in runtime.state.open_calls
    ]


def _cancelled(call: OpenCall, *, is_begun: bool) -> CallEnded:
    text = _CANCELLED if call.is_started and is_begun else "Not run: the turn was stopped first."
    return CallEnded(call=call.asked.call, outcome="cancelled", output=text)


def lost(call: OpenCall) -> CallEnded:
    """The end of a call of which nobody knows how far it came."""
    return CallEnded(call=call.asked.call, outcome="unknown", output=_UNKNOWN)


def abandoned(call: OpenCall) -> CallEnded:
    """The end of a call whose question was not answered, because the user said something new."""
    if call.is_lost:
        return lost(call)
    text = "Not run: the user said something new instead of answering."
    return CallEnded(call=call.asked.call, outcome="abandoned", output=text)

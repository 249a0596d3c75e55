"""What a turn works with, and how it ends: the port between a session and whoever takes its turns.

The other files here are the parts of a turn; `loop.py` puts them together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Protocol

import msgspec

from mainspring.approvals import Policy
from mainspring.approvals.grants import Grant
from mainspring.catalog import Day
from mainspring.context.guards import Guards
from mainspring.context.history import History
from mainspring.errors import MainspringError, ModelError
from mainspring.events import (
    KEEPS_CALLS_OPEN,
    ApprovalAsked,
    ApprovalGiven,
    Blob,
    CallEnded,
    CapScope,
    CapUnit,
    Compacted,
    Delta,
    Ending,
    Event,
    Limits,
    Scope,
    TurnEnded,
)
from mainspring.folds.ledger import Refusal, TimeLeft
from mainspring.folds.processes import Handles
from mainspring.folds.state import OpenCall, State
from mainspring.models import Model
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.secrets.vault import Vault
from mainspring.tools.toolbox import Toolbox
from mainspring.waits.reach import Reach
from mainspring.workspace import TimeMachine
from mainspring.workspace.instructions import NestedInstructions

_CANCELLED = "Cancelled while it ran. What it had done by then is not undone."
_UNKNOWN = (
    "The session was interrupted after this call had started, and its outcome is unknown."
    " Look at what it did before you repeat it."
)


class Turn(Protocol):
    """`emit` returns once the events are durable and folded into `state`, `history` and `guards`."""

    @property
    def state(self) -> State: ...

    @property
    def history(self) -> History: ...

    @property
    def guards(self) -> Guards: ...

    @property
    def nested(self) -> NestedInstructions | None: ...

    @property
    def compact_at(self) -> float:
        """The share of the model's window at which history is made short."""
        ...

    @property
    def model(self) -> Model: ...

    async def take_model(self) -> Model:
        """The model that the journal names by now, with the history projected for it."""
        ...

    @property
    def toolbox(self) -> Toolbox: ...

    @property
    def policy(self) -> Policy: ...

    @property
    def files(self) -> Files: ...

    @property
    def limits(self) -> Limits:
        """The caps that hold: of the open turn, else of the next one."""
        ...

    @property
    def parent(self) -> Turn | None:
        """Whose turn this one works for, and whose caps it shares."""
        ...

    @property
    def day(self) -> Day | None: ...

    @property
    def time_machine(self) -> TimeMachine: ...

    @property
    def vault(self) -> Vault:
        """Secrets, and what stands in for them; everything that is recorded has passed it."""
        ...

    @property
    def handles(self) -> Handles:
        """The background processes of this session."""
        ...

    @property
    def reach(self) -> Reach:
        """What waits can look at beyond this session, and how long they may take."""
        ...

    async def emit(self, *events: Event) -> None: ...

    async def sandbox(self) -> Sandbox:
        """Where commands run; chosen, and recorded, when it is first needed."""
        ...

    def show(self, delta: Delta) -> None: ...

    async def ask_person(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """The recorded answer of a person, or None when there is nobody to ask."""
        ...

    async def shorten(self, reason: str) -> Compacted | None:
        """Makes the history short, on record; None when nothing can be left out."""
        ...

    async def recall(self, name: str) -> bytes:
        """A blob by its hash, or an event's text by its handle; raises `MainspringError` without one."""
        ...

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """How far a person's yes can reach here."""
        ...

    async def grant(self, *grants: Grant) -> None:
        """Keeps what a person allowed for more than once."""
        ...

    async def remember(self, text: str) -> None:
        """Keeps something for later sessions in the same project; raises `OSError` when it cannot."""
        ...

    async def put_blob(self, data: bytes, media_type: str) -> Blob: ...

    async def get_blob(self, blob: Blob) -> bytes: ...

    async def ended_calls(self, calls: Collection[str] = ()) -> Mapping[str, CallEnded]:
        """The results on record of these calls, or the newest there are, oldest first."""
        ...


class Engine(Protocol):
    """Who takes a turn: the built-in loop, or an outside agent."""

    async def __call__(self, turn: Turn) -> None:
        """Returns after a `TurnEnded` was recorded, or raises when that was not possible."""
        ...


class End(msgspec.Struct, frozen=True):
    """Why a turn is over, and what a person can do about it."""

    ending: Ending
    detail: str = ""
    remedy: str = ""
    resume_at_us: int | None = None
    scope: CapScope | None = None
    unit: CapUnit | None = None


def lineage(turn: Turn) -> Iterator[Turn]:
    """The turn and those above it, whose caps it shares."""
    at: Turn | None = turn
    while at is not None:
        yield at
        at = at.parent


def time_left(turn: Turn) -> TimeLeft | None:
    """The shortest time that any cap leaves, here or above; None when none is limited."""
    lefts = [left for each in lineage(turn) if (left := each.state.ledger.time_left(each.limits))]
    return min(lefts, key=lambda left: left.time_s, default=None)


async def run_to_end(turn: Turn, work: Callable[[Turn], Awaitable[End]]) -> None:
    """Does the work of a turn within its time, and records its end whatever happens, unless the journal
    itself fails."""
    left = time_left(turn)
    allowed = asyncio.timeout(left.time_s if left else None)
    try:
        async with allowed:
            end = await work(turn)
    except TimeoutError:
        if left is None or not allowed.expired():
            raise
        end = refused(left.refusal)
    except asyncio.CancelledError:
        await end_turn(turn, End("interrupted", "Stopped by request."))
        raise
    except ModelError as error:
        end = End("failed", error.message, error.remedy)
    await end_turn(turn, end)


def refused(refusal: Refusal) -> End:
    """The end of a turn for which nothing is left."""
    return End(refusal.ending, refusal.message, refusal.remedy, scope=refusal.scope, unit=refusal.unit)


async def end_turn(turn: Turn, end: End) -> None:
    """Closes the open calls and the turn in one commit."""
    state = turn.state
    closing: list[Event] = []
    if end.ending not in KEEPS_CALLS_OPEN:
        closing += [closed(call) for call in state.open_calls]
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
    )
    await turn.emit(*closing, ended)


def failed(error: Exception) -> End:
    """The end of a turn that an error broke off: one for people, or a fault of ours."""
    if isinstance(error, MainspringError):
        return End("failed", error.message, error.remedy)
    return End("failed", f"mainspring itself failed: {error!r}.", "The traceback is in the journal.")


def closed(call: OpenCall) -> CallEnded:
    """The end of a call that is not run to its end."""
    if call.is_lost:
        return CallEnded(call=call.asked.call, outcome="unknown", output=_UNKNOWN)
    text = _CANCELLED if call.is_started else "Not run: the turn was stopped first."
    return CallEnded(call=call.asked.call, outcome="cancelled", output=text)


def abandoned(call: OpenCall) -> CallEnded:
    """The end of a call whose question was not answered, because the user said something new."""
    if call.is_lost:
        return closed(call)
    text = "Not run: the user said something new instead of answering."
    return CallEnded(call=call.asked.call, outcome="abandoned", output=text)

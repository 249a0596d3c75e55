"""What a program gets for something it said: the answer of one turn as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

import msgspec

from mainspring.errors import OutputInvalid
from mainspring.events import AssistantSaid, Ending, TurnEnded, Usage
from mainspring.tools.output import OutputType

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # type checkers have it built in

    from mainspring.session.session import Session

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class Reply(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """How a turn answered. `text` is the last message of the model. `usage` and `cost_usd` are those of the
    turn. When `ending` is not `done`, `detail` says what happened and `remedy` what to do about it. `output`
    is the value of the type that was asked for, and None when none was, or the turn is not
    done. Without `is_new` there was nothing to go on with. `attempt` is the one that was kept when several
    were made, and 0 otherwise."""

    text: str
    ending: Ending
    usage: Usage = Usage()
    cost_usd: float = 0.0
    detail: str = ""
    remedy: str = ""
    session: str = ""
    output: T = None  # pyright: ignore[reportAssignmentType] - without a type there is none
    is_new: bool = True
    attempt: int = 0

    @property
    def is_done(self) -> bool:
        return self.ending == "done"


async def take_reply(session: Session, text: str, wanted: OutputType | None = None) -> Reply:
    """Says something, or goes on without a text, and gives the answer when the turn has ended. What fits the
    schema of the output and is refused by its type is told to the model once; then `OutputInvalid`."""
    reply, output = await _taken(session, text, wanted), wanted or session.output
    if output is None or not reply.is_done or not reply.is_new:
        return reply
    try:
        return msgspec.structs.replace(reply, output=output.convert(reply.text))
    except ValueError as error:
        reply = await _taken(session, f"Your answer was not accepted: {error}. Answer again.", wanted)
    if not reply.is_done:
        return reply
    try:
        return msgspec.structs.replace(reply, output=output.convert(reply.text))
    except ValueError as error:
        raise OutputInvalid(
            f"The model's answer was not accepted: {error}.", remedy="Ask again, or use another model."
        ) from error


async def _taken(session: Session, text: str, wanted: OutputType | None) -> Reply:
    said, ended = "", None
    async for event in session.run(text, output=wanted):
        if isinstance(event, AssistantSaid):
            said = event.text
        ended = event if isinstance(event, TurnEnded) else ended
    if ended is None:
        detail = "There was nothing to go on with."
        return Reply(text="", ending="done", session=session.id, detail=detail, is_new=False)
    return Reply(
        # A turn that was interrupted may have had its answer on record already.
        text=said or (session.state.last_reply.text if ended.ending == "done" else ""),
        ending=ended.ending,
        usage=ended.usage,
        cost_usd=ended.cost_usd,
        detail=ended.detail,
        remedy=ended.remedy,
        session=session.id,
    )

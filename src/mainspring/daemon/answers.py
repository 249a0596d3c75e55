"""Whether a person answered what a goal or a turn had ended for."""

from __future__ import annotations

from mainspring.catalog import SessionRow, Sessions, reading
from mainspring.errors import JournalError
from mainspring.events import ApprovalGiven


async def is_answered(sessions: Sessions, row: SessionRow) -> bool:
    """Whether the question was answered since the goal, or a turn without one, ended for want of it."""
    try:
        async with reading(sessions, row.id) as reader:
            given, ended = (
                await reader.last("ApprovalGiven"),
                await reader.last("GoalEnded" if row.goal else "TurnEnded"),
            )
            open_question = await reader.last("ApprovalAsked")
    except JournalError:
        return False
    return (
        given is not None
        and ended is not None
        and given.seq > ended.seq
        and isinstance(given.event, ApprovalGiven)
        and given.event.decision != "stop"
        and (open_question is None or open_question.seq < given.seq)
    )

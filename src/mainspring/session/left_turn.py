"""A turn that is put on record for another process to take: what was said, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.errors import UsageError
from mainspring.events import Media, TurnStarted, UserSaid
from mainspring.events.escaping import whole_characters
from mainspring.secrets.recorder import check_event
from mainspring.session.session import Session, runtime_of


async def leave_turn(
    session: Session, text: str, media: Sequence[Media] = (), *, schema: dict[str, Any] | None = None
) -> None:
    """Says something and begins its turn on record. Whoever goes on with the session takes it."""
    if session.is_turn_wanted:
        raise UsageError(
            f"Session {session.id} has a turn that is not over.", remedy="Go on with that first."
        )
    runtime = runtime_of(session)
    said = UserSaid(text=whole_characters(text), media=tuple(media), output_schema=schema)
    check_event(said)
    noted = await runtime.vet(said)
    started = TurnStarted(turn=session.state.turn + 1, limits=runtime.budget.limits, output_schema=schema)
    await runtime.record(*noted, said, started)

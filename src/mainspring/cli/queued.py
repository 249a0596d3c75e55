"""What `--queue NAME --labels WORDS` asks for: work that is left to a worker instead of being done here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from mainspring.app.operations.workers import (
    DEFAULT_QUEUE,
    QueuePlace,
    check_dispatch,
    leave_to_worker,
    parse_labels,
    parse_queue,
)
from mainspring.cli.config import load_config
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, Media, TurnEnded
from mainspring.session.session import Session


def place_of(queue: str, labels: str, *, is_queued: bool = False, **options: Any) -> QueuePlace | None:
    """The place in a queue that the options ask for; None when they ask for none. `is_queued` is that another
    option asks for one."""
    words = parse_labels(labels)
    if not queue and words and not is_queued:
        raise UsageError("--labels needs --queue.", remedy=f"Name a queue: --queue {DEFAULT_QUEUE}")
    if not queue and not is_queued:
        return None
    check_dispatch(load_config())
    given = ["--allow-unpriced"] if options.get("allow_unpriced") else []
    given += ["--sandbox", options["sandbox"]] if options.get("sandbox") else []
    return QueuePlace(queue=parse_queue(queue or DEFAULT_QUEUE), labels=words, options=tuple(given))


class LeaveControl:
    """Drives a session by leaving what is said to a worker, and prints its id."""

    def __init__(self, place: QueuePlace) -> None:
        self._place = place

    async def __call__(self, _: ApprovalAsked, /) -> ApprovalGiven | None:
        """Nothing is asked where nothing is done."""
        return None

    async def drive(self, session: Session, text: str, media: Sequence[Media]) -> TurnEnded | None:
        await leave_to_worker(load_config(), session, text, media, self._place)
        click.echo(session.id)
        return None


def refuse_here(place: QueuePlace | None, **options: Any) -> None:
    """Refuses what can only be done by the process that does the work here."""
    names = {
        "is_branched": "--branch",
        "attempts": "--attempts",
        "checks": "--check",
        "control": "--input-format",
    }
    given = [shown for name, shown in names.items() if options.get(name)]
    if place is not None and given:
        raise UsageError(
            f"{' and '.join(given)} cannot be combined with --queue: a worker takes one plain turn.",
            remedy="Leave it out, or start a goal: mainspring goal start --queue NAME",
        )

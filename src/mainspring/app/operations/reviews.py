"""The reviews that are on record, in all sessions, and what people say became of their findings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from mainspring.app.operations.changes import content_in
from mainspring.app.operations.sessions import journal_of, list_sessions
from mainspring.app.records import recording, workspace_of
from mainspring.app.stores import sessions_of
from mainspring.checks.review_outcomes import (
    KINDS,
    Bucket,
    Calibration,
    PastReview,
    calibration,
    past_reviews,
)
from mainspring.errors import JournalError, UsageError
from mainspring.events import FindingSettled, Recorded
from mainspring.journal import events_in
from mainspring.settings import Config

__all__ = ["Bucket", "PastReview", "find_review", "list_reviews", "load_calibration", "settle_finding"]


async def list_reviews(config: Config, *, limit: int) -> list[PastReview]:
    """The reviews of the newest `limit` sessions, the newest first."""
    store, found = sessions_of(config), list[PastReview]()
    for row in (await list_sessions(config))[:limit]:
        try:
            async with journal_of(config, row.id) as reader:
                if await reader.last("ReviewStarted") is None:
                    continue
                events = [item async for item in events_in(reader, kinds=KINDS)]
        except JournalError:
            continue  # `sessions` tells of a damaged one
        found += await asyncio.to_thread(_reviews_at, workspace_of(row, store, config), row.id, events)
    return sorted(found, key=lambda each: each.time_us, reverse=True)


def _reviews_at(place: str, session: str, events: list[Recorded]) -> list[PastReview]:
    is_there = bool(place) and Path(place).is_dir()
    return past_reviews(session, events, content_in(Path(place)) if is_there else None)


async def load_calibration(config: Config, *, limit: int) -> Calibration:
    """How often the own confidence of reviewers was right, in the newest `limit` sessions."""
    return calibration(await list_reviews(config, limit=limit))


async def find_review(config: Config, review: str, *, limit: int) -> PastReview:
    """The one review whose id begins so."""
    found = [each for each in await list_reviews(config, limit=limit) if each.review.startswith(review)]
    if len(found) != 1:
        what = "more than one review" if found else "no review"
        raise UsageError(
            f"There is {what} whose id begins with {review!r} in the newest {limit} sessions.",
            remedy="`mainspring reviews` lists them.",
        )
    return found[0]


async def settle_finding(
    config: Config, review: str, number: int, verdict: Literal["fixed", "dismissed"], why: str, *, limit: int
) -> PastReview:
    """Records what became of a finding, in the session where the review stands."""
    found = await find_review(config, review, limit=limit)
    count = len(found.ended.findings) if found.ended else 0
    if not 1 <= number <= count:
        raise UsageError(f"Review {found.review} has no finding {number}; it has {count}.")
    async with recording(found.session, config) as recorder:
        await recorder.record(FindingSettled(review=found.review, number=number, verdict=verdict, why=why))
    return await find_review(config, found.review, limit=limit)

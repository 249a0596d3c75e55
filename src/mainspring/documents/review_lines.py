"""Reviews as lines for people; a part of the table in `lines`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mainspring.events import Event, FindingSettled, ReviewEnded, ReviewFinding, ReviewStarted
from mainspring.events.counts import plural


def finding_lines(finding: ReviewFinding, number: int = 0) -> Iterator[str]:
    """A finding as compilers write it, with why below it."""
    mark = f"[{number}] " if number else ""
    yield f"{finding.file}:{finding.line}: {finding.severity}: {mark}{finding.title}"
    yield f"  {finding.why}"
    if finding.reproduction:
        yield f"  To see it: {finding.reproduction}"
    if finding.problem:
        yield f"  Not verified: {finding.problem}."
    elif finding.verified:
        yield f"  Verified: {finding.verified}"
    if finding.confidence is not None:
        yield f"  (the reviewer's own confidence: {finding.confidence} of 100)"


def _review_started(event: ReviewStarted) -> str:
    return f"· reviewing {event.subject} ({plural(len(event.files), 'file')}) in session {event.review}"


def _review_ended(event: ReviewEnded) -> str:
    if event.failure:
        return f"! the review did not come to its end: {event.failure}"
    apart = f", {len(event.unverified)} not verified" if event.unverified else ""
    lines = [f"· review: {plural(len(event.findings), 'finding')}{apart}. {event.summary}".rstrip()]
    for number, each in enumerate(event.findings, 1):
        lines.append(f"  [{number}] {each.file}:{each.line}: {each.severity}: {each.title}")
    lines += [f"  not reviewed: {each}" for each in event.not_reviewed]
    return "\n".join(lines)


def _finding_settled(event: FindingSettled) -> str:
    why = f": {event.why}" if event.why else ""
    return f"· finding {event.number} of review {event.review} is {event.verdict}{why}"


REVIEW_LINES: dict[type[Event], Callable[[Any], str]] = {
    ReviewStarted: _review_started,
    ReviewEnded: _review_ended,
    FindingSettled: _finding_settled,
}

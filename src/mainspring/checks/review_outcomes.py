"""What became of reviews: whether their findings were right, and whether what they said of themselves was.

A finding was right when a person says that it is fixed, or when the code that it quotes was changed since; it
was wrong when a person dismissed it. A review was wrong when tests or checks fail later in the same session
on what it had looked at, and held when they pass. Everything else is open. Pure folds of journals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from mainspring.checks.review_findings import stands_in
from mainspring.events import (
    ChangesChecked,
    FilesChanged,
    FindingSettled,
    Recorded,
    ReviewEnded,
    ReviewFinding,
    ReviewStarted,
    SuiteEnded,
)

KINDS = ("ReviewStarted", "ReviewEnded", "FindingSettled", "SuiteEnded", "ChangesChecked", "FilesChanged")
"""The kinds of events that the fold reads."""

FindingState = Literal["open", "fixed", "changed", "dismissed"]
"""What became of a finding: `changed` means that the code it quotes is no longer there."""

ReviewState = Literal["unknown", "held", "failed later"]

_WIDTH = 20


class PastReview(msgspec.Struct, kw_only=True):
    """A review on record, where it stands, and what became of each of its findings."""

    session: str
    review: str
    subject: str
    time_us: int
    cause: str = "asked"
    files: tuple[str, ...] = ()
    ended: ReviewEnded | None = None
    settled: dict[int, FindingSettled] = {}
    states: tuple[FindingState, ...] = ()
    state: ReviewState = "unknown"
    is_stale: bool = False
    """Whether a file that was reviewed has changed since."""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all that was said with a confidence from `low` to `high`."""

    low: int
    high: int
    decided: int = 0
    right: int = 0


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """How often the own confidence of reviewers was right, of findings and of whole reviews. What is still
    open is not counted as either."""

    findings: tuple[Bucket, ...] = ()
    reviews: tuple[Bucket, ...] = ()
    open_findings: int = 0
    open_reviews: int = 0


def past_reviews(
    session: str, events: Iterable[Recorded], content: Callable[[str], str | None] | None
) -> list[PastReview]:
    """The reviews of one journal, the first one first. `content` gives a file of its workspace as it is
    now; without it the workspace is gone."""
    found: dict[str, PastReview] = {}
    for item in events:
        match item.event:
            case ReviewStarted() as started:
                found[started.review] = PastReview(
                    session=session,
                    review=started.review,
                    subject=started.subject,
                    time_us=item.time_us,
                    cause=started.cause,
                    files=tuple(each.path for each in started.files),
                )
            case ReviewEnded() as ended if ended.review in found:
                found[ended.review].ended = ended
            case FindingSettled() as settled if settled.review in found:
                found[settled.review].settled[settled.number] = settled
            case event:
                _follow(found.values(), event)
    for each in found.values():
        findings = each.ended.findings if each.ended else ()
        each.states = tuple(
            _state(finding, each.settled.get(number), content) for number, finding in enumerate(findings, 1)
        )
    return list(found.values())


def calibration(reviews: Sequence[PastReview]) -> Calibration:
    """How often what reviewers thought of themselves was right."""
    pairs: list[tuple[int, FindingState]] = []
    wholes: list[tuple[int, ReviewState]] = []
    for review in reviews:
        if review.ended is None:
            continue
        if review.ended.confidence is not None:
            wholes.append((review.ended.confidence, review.state))
        for finding, state in zip(review.ended.findings, review.states, strict=True):
            if finding.confidence is not None:
                pairs.append((finding.confidence, state))
    decided = [(said, state != "dismissed") for said, state in pairs if state != "open"]
    judged = [(said, state == "held") for said, state in wholes if state != "unknown"]
    return Calibration(
        findings=_buckets(decided),
        reviews=_buckets(judged),
        open_findings=len(pairs) - len(decided),
        open_reviews=len(wholes) - len(judged),
    )


def _follow(reviews: Iterable[PastReview], event: object) -> None:
    """What later events of the session say of what had been reviewed, as long as it is unchanged."""
    for each in reviews:
        if each.ended is None or each.is_stale:
            continue
        match event:
            case FilesChanged(changes=changes):
                each.is_stale = any(change.path in each.files for change in changes)
            case SuiteEnded(outcome="failed"):
                each.state = "failed later"
            case SuiteEnded(outcome="passed") if each.state == "unknown":
                each.state = "held"
            case ChangesChecked(files=files):
                errors = [
                    file.path for file in files if any(found.severity == "error" for found in file.findings)
                ]
                if {*errors} & {*each.files}:
                    each.state = "failed later"
            case _:
                pass


def _state(
    finding: ReviewFinding, settled: FindingSettled | None, content: Callable[[str], str | None] | None
) -> FindingState:
    """That code is not there says something only of code that was."""
    if settled:
        return settled.verdict
    if content is None or finding.is_gone:
        return "open"
    text = content(finding.file)
    return "open" if text is not None and stands_in(finding, text) else "changed"


def _buckets(decided: Sequence[tuple[int, bool]]) -> tuple[Bucket, ...]:
    found: list[Bucket] = []
    for low in range(0, 100, _WIDTH):
        high = 100 if low + _WIDTH >= 100 else low + _WIDTH - 1
        within = [is_right for said, is_right in decided if low <= said <= high]
        if within:
            found.append(Bucket(low=low, high=high, decided=len(within), right=sum(within)))
    return tuple(found)

"""Has an agent with a fresh context review a change, and verifies what it finds before anybody is told.

The reviewer's session may be one that was interrupted: what it has answered already is not asked again.
Findings that cannot be verified are told to the reviewer once; what is left of them after that is told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mainspring.checks.review_findings import ReviewAnswer, asked_again, verify
from mainspring.events import KEEPS_CALLS_OPEN, ReviewEnded, ReviewFinding
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.session.session import Session
from mainspring.workspace.parsed_diff import DiffedFile, parse_diff

MAX_DIFF = 400_000
"""Characters of a diff that one reviewer is shown."""
_MAX_ROUNDS = 2


class ReviewedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change to be reviewed: which one it is, as a diff. `left_out` names what is not in the diff, and why.
    `content` gives a file as it is now, and None where there is none."""

    subject: str
    diff: str
    content: Callable[[str], str | None]
    left_out: tuple[str, ...] = ()

    @property
    def files(self) -> list[DiffedFile]:
        return parse_diff(self.diff)


async def take_review(session: Session, change: ReviewedChange) -> ReviewEnded:
    """What the agent of a session finds wrong with a change. A review that does not come to its end says why
    in `failure`."""
    files = change.files
    shown, left = _shown(change.diff, files)
    binary = [f"{each.path}: it is binary" for each in files if each.is_binary]
    ended = ReviewEnded(review=session.id, not_reviewed=(*left, *binary, *change.left_out))
    question = f"Review this change ({change.subject}):\n\n```diff\n{shown}\n```"
    said = await session.journal.count("UserSaid")
    for number in range(_MAX_ROUNDS):
        is_said = number < said
        if is_said and number + 1 < said:
            continue
        answer = await _answer(session, "" if is_said else question)
        if isinstance(answer, str):
            return ended if ended.summary else msgspec.structs.replace(ended, failure=answer)
        found = verify(answer.findings, files, change.content)
        ended = msgspec.structs.replace(
            ended,
            summary=answer.summary,
            findings=found.verified,
            unverified=found.unverified,
            confidence=answer.confidence,
            reasons=answer.reasons,
            cost_usd=session.state.ledger.spent_usd,
        )
        if not found.unverified:
            break
        question = asked_again(found.unverified)
    return ended


def told(findings: Sequence[ReviewFinding]) -> str:
    """Findings as a model is told them."""
    return "\n".join(
        f"- {each.file}:{each.line} ({each.severity}) {each.title}: {each.why}"
        + (f" To see it: {each.reproduction}" if each.reproduction else "")
        for each in findings
    )


def _shown(diff: str, files: Sequence[DiffedFile]) -> tuple[str, list[str]]:
    """What of a diff is shown: whole files, as many as fit, and of the first one a part if need be; and which
    are left out."""
    if len(diff) <= MAX_DIFF:
        return diff, []
    starts = [each.offset for each in files[1:] if each.offset <= MAX_DIFF]
    end = starts[-1] if starts else MAX_DIFF
    left = [f"{each.path}: the change is too long" for each in files if each.offset >= end]
    if not starts:
        left = [f"{files[0].path if files else 'the diff'}: only its beginning was reviewed", *left]
    return f"{diff[:end]}\n[the rest of the diff is left out]", left


async def _answer(session: Session, question: str) -> ReviewAnswer | str:
    """What the reviewer answers, or why it did not. Without a question it goes on with what it was asked."""
    last = session.state.last_ending
    is_over = last is not None and last.ending not in (*KEEPS_CALLS_OPEN, "interrupted", "failed")
    if not question and is_over and not session.is_turn_wanted:
        return _read(session.state.last_reply.text)
    reply = await session.ask(question)
    if isinstance(reply.output, ReviewAnswer):
        return reply.output
    return f"{reply.detail} {reply.remedy}".strip() or f"It ended as {reply.ending}."


def _read(text: str) -> ReviewAnswer | str:
    try:
        return msgspec.json.decode(text, type=ReviewAnswer)
    except DECODE_ERRORS as error:
        return f"Its answer cannot be read: {error}."

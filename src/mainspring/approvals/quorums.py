"""Whose yes counts, and how many of them it takes, where a team says so. Pure.

A question carries its quorums, so the journal alone says what is still missing. All of them must be met; a
person counts once, and a no of anybody who may answer ends it. What must be known is who somebody is: an
answer by a link says only that somebody had it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mainspring.errors import AccessRefused
from mainspring.events import SCOPES, ApprovalAdded, ApprovalAsked, ApprovalGiven, Origin, Quorum
from mainspring.people.persons import Person, means, person_on_record

BY_LINK = "a link"
"""The device of an answer by a link in a notification."""


class OpenRequest(msgspec.Struct, frozen=True):
    """A question that waits, and those who said yes to it so far."""

    asked: ApprovalAsked
    added: tuple[ApprovalAdded, ...] = ()

    @property
    def shown(self) -> ApprovalAsked:
        """The question, with who is missing in its reason."""
        if not self.asked.quorums:
            return self.asked
        return msgspec.structs.replace(self.asked, reason=f"{self.asked.reason} ({self.missing()})")

    def missing(self, *more: ApprovalAdded) -> str:
        """A sentence on who said yes, and whose yes it still takes."""
        people = _people((*self.added, *more))
        said = f"{', '.join(each.name for each in people)} said yes; it" if people else "it"
        left = [_left(self.asked, quorum, people) for quorum in self.asked.quorums]
        return f"{said} takes {'; and '.join(filter(None, left)) or 'nobody else'}"

    def unentitled(self, answer: ApprovalGiven) -> str:
        """Why this person's answer does not count; empty when it does."""
        asked = self.asked
        if not asked.quorums or answer.agreed or answer.decision in ("expire", "abandon"):
            return ""
        known = _answerer(answer.origin)
        if known is None:
            return "a link does not say who answers, and here it must be known"
        person = known.name
        is_owner = person in asked.owners
        if answer.decision != "allow" and is_owner:
            return ""  # whoever wanted it may always take it back
        names = tuple(name for quorum in asked.quorums for name in quorum.by)
        if not means(names, known, {}):
            return f"{person} is none of {_listed(names)}"
        if answer.decision != "allow":
            return ""
        if is_owner and any(quorum.not_own for quorum in asked.quorums):
            return f"{person} may not allow what their own command led to"
        if any(each.person == person for each in self.added):
            return f"{person} said yes already"
        return ""

    def counted(self, answer: ApprovalGiven) -> ApprovalGiven | ApprovalAdded:
        """What an answer is, of one who may give it: the one that decides, or a yes that others must join."""
        if not self.asked.quorums or answer.decision != "allow" or answer.agreed:
            return answer
        added = ApprovalAdded(
            call=answer.call,
            arguments_sha256=answer.arguments_sha256,
            person=name_of(answer.origin),
            scope=answer.scope,
            pattern=answer.pattern,
            expires_us=answer.expires_us,
            feedback=answer.feedback,
            origin=answer.origin,
        )
        everybody = (*self.added, added)
        people = _people(everybody)
        if any(_left(self.asked, quorum, people) for quorum in self.asked.quorums):
            return added
        return _of_all(answer, everybody)


class NotEntitled(AccessRefused):
    """The answer of somebody who may not give it. The question stays open."""


def check_entitled(request: OpenRequest | None, answer: ApprovalGiven) -> None:
    """`NotEntitled` for the answer of somebody who may not give it."""
    if request is not None and (why := request.unentitled(answer)):
        raise NotEntitled(
            f"The call {answer.call} cannot be answered like this: {why}.",
            remedy=f"It still waits: {request.missing()}.",
            rule=" and ".join(dict.fromkeys(each.rule for each in request.asked.quorums)),
        )


def name_of(origin: Origin | None) -> str:
    """The name, as a policy writes it, of who gave a command; empty when that is not on record."""
    return person_on_record(origin, "").name if origin is not None and origin.user else ""


def in_words(quorums: Iterable[Quorum]) -> str:
    """Whose yes it takes."""
    return " and ".join(f"{_count(each, each.of)}{_not_own(each)} [{each.rule}]" for each in quorums)


def _answerer(origin: Origin | None) -> Person | None:
    """Who answers; None for one by a link."""
    if origin is None or origin.device == BY_LINK:
        return None
    return person_on_record(origin, "")


def _people(added: Iterable[ApprovalAdded]) -> tuple[Person, ...]:
    return tuple(filter(None, (_answerer(each.origin) for each in added)))


def _left(asked: ApprovalAsked, quorum: Quorum, people: tuple[Person, ...]) -> str:
    """Whose yes a quorum still takes; empty when it is met."""
    count = quorum.of - sum(means(quorum.by, person, {}) for person in people)
    if count <= 0:
        return ""
    out = {each.name for each in people}.union(asked.owners if quorum.not_own else ())
    named = msgspec.structs.replace(quorum, by=tuple(name for name in quorum.by if name not in out))
    return f"{_count(named, count)}{_not_own(quorum)} [{quorum.rule}]"


def _count(quorum: Quorum, count: int) -> str:
    if "*" in quorum.by:
        return f"{count} {'person' if count == 1 else 'people'} who may approve"
    return f"{count} of {_listed(quorum.by)}"


def _not_own(quorum: Quorum) -> str:
    return ", not whose command led to it" if quorum.not_own else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "nobody that is left"


def _of_all(answer: ApprovalGiven, everybody: tuple[ApprovalAdded, ...]) -> ApprovalGiven:
    """The deciding yes: it reaches as far as each of them said, so once where they said different things."""
    scope = min((each.scope for each in everybody), key=SCOPES.index)
    patterns = {each.pattern for each in everybody}
    ends = [each.expires_us for each in everybody if each.expires_us is not None]
    is_one = scope != "once" and len(patterns) == 1
    return msgspec.structs.replace(
        answer,
        scope=scope if is_one else "once",
        pattern=answer.pattern if is_one else "",
        expires_us=min(ends, default=None) if is_one else None,
        agreed=tuple(each.person for each in everybody),
    )

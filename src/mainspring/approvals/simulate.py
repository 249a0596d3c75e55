"""What would these rules have said to past calls? Nothing is run and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mainspring.approvals import Answer, Judgement, Policy, Proposed


class PastCall(msgspec.Struct, frozen=True):
    """A call as it was proposed, and what was decided then."""

    call: str
    proposed: Proposed
    answered: Answer


class Comparison(msgspec.Struct, frozen=True):
    past: PastCall
    now: Judgement

    @property
    def is_changed(self) -> bool:
        return self.past.answered != self.now.answer


def simulate(policy: Policy, calls: Iterable[PastCall]) -> Iterator[Comparison]:
    """Each past call beside the verdict that it would get now."""
    return (Comparison(call, policy.judge(call.proposed)) for call in calls)


def counts(comparisons: Iterable[Comparison]) -> dict[tuple[Answer, Answer], int]:
    """How often each past answer would become each answer now."""
    found: dict[tuple[Answer, Answer], int] = {}
    for each in comparisons:
        key = (each.past.answered, each.now.answer)
        found[key] = found.get(key, 0) + 1
    return found

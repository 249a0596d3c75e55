"""Approving a batch of calls within a cap: estimate, reserve in order, block what does not fit.

Calls of one step are judged together, so that two that fit alone do not overspend together. What is blocked
is asked, with the reason and what is left. Pure: the ledger holds the money, this only counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.approvals import Policy, Proposed, Verdict, why_not_free


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent unasked, and what of it is spent or reserved."""

    cap_usd: float
    used_usd: float = 0.0

    @property
    def remaining_usd(self) -> float:
        return max(0.0, self.cap_usd - self.used_usd)


def judge_batch(
    policy: Policy, batch: Sequence[Proposed], allowance: Allowance
) -> tuple[tuple[Verdict, ...], Allowance]:
    """A verdict for each call in order, and the allowance with what was allowed reserved."""
    verdicts: list[Verdict] = []
    for proposed in batch:
        verdict = policy.judge(proposed)
        blocked = why_not_free(proposed, remaining_usd=allowance.remaining_usd, cap_usd=allowance.cap_usd)
        if verdict.answer == "allow" and blocked and not verdict.rule.startswith("grant:"):
            verdict = Verdict(answer="ask", reason=blocked, rule="budget", findings=verdict.findings)
        elif verdict.answer == "allow":
            allowance = msgspec.structs.replace(
                allowance, used_usd=allowance.used_usd + (proposed.cost_usd or 0.0)
            )
        verdicts.append(verdict)
    return tuple(verdicts), allowance

"""How much of what is left a child may use: a share that is set aside for it before it begins. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.events import Cap, Limits, PlannedTask
from mainspring.folds.ledger import Ledger

RESERVE = 0.2
"""The part of what is left that no child gets: the parent must be able to report."""

LEAST_TOKENS = 2_000
LEAST_USD = 1e-6


def share_of(ledger: Ledger, limits: Limits, *, beside: int) -> Cap | None:
    """What a child may use of what the caps of its parent leave, where `beside` further children are about to
    begin; None when that is too little. A child that is alone gets half of it, so that there can be another.
    What is not capped is not capped for a child either."""
    left, parts = _kept(ledger.left(limits), RESERVE), max(beside + 1, 2)
    return _enough(left, None if left.usd is None else left.usd / parts, parts)


def task_share(
    ledger: Ledger, limits: Limits, task: PlannedTask, later: Sequence[PlannedTask], *, reserve: float
) -> Cap | None:
    """What a task of a graph may use, where those in `later` have not begun; None when that is too little. A
    task with a budget may use that; what others have as theirs is not for those that have none, as far as
    it goes."""
    left, parts = _kept(ledger.left(limits), reserve), len(later) + 1
    if left.usd is None:
        return _enough(left, None, parts)
    if task.budget_usd is not None:
        return _enough(left, min(task.budget_usd, left.usd), parts)
    promised = sum(each.budget_usd or 0.0 for each in later)
    without = 1 + sum(each.budget_usd is None for each in later)
    return _enough(left, max((left.usd - promised) / without, left.usd / parts), parts)


def _kept(left: Cap, reserve: float) -> Cap:
    return Cap(
        usd=None if left.usd is None else left.usd * (1 - reserve),
        tokens=None if left.tokens is None else int(left.tokens * (1 - reserve)),
        calls=None if left.calls is None else int(left.calls * (1 - reserve)),
    )


def _enough(left: Cap, usd: float | None, parts: int) -> Cap | None:
    tokens = None if left.tokens is None else left.tokens // parts
    calls = None if left.calls is None else left.calls // parts
    if (usd is not None and usd < LEAST_USD) or (tokens is not None and tokens < LEAST_TOKENS) or calls == 0:
        return None
    return Cap(usd=usd, tokens=tokens, calls=calls)


def limits_of(share: Cap, *, budget_usd: float | None, steps: int | None, tokens: int | None) -> Limits:
    """The limits of a child: its share, and what it or whoever asks for it wants it to have at most."""
    return Limits(
        max_steps=steps,
        max_calls=share.calls,
        max_tokens=min((each for each in (share.tokens, tokens) if each is not None), default=None),
        max_cost_usd=min((each for each in (share.usd, budget_usd) if each is not None), default=None),
    )

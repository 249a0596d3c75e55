"""How much of what is left a child may use: a share that is set aside for it before it begins. Pure."""

from __future__ import annotations

from mainspring.events import Cap, Limits
from mainspring.folds.ledger import Ledger

RESERVE = 0.2
"""The part of what is left that no child gets: the parent must be able to report."""

LEAST_TOKENS = 2_000
LEAST_USD = 1e-6


def share_of(ledger: Ledger, limits: Limits, *, beside: int) -> Cap | None:
    """What a child may use of what the caps of its parent leave, where `beside` further children are about to
    begin; None when that is too little. A child that is alone gets half of it, so that there can be another.
    What is not capped is not capped for a child either."""
    left = ledger.left(limits)
    parts = max(beside + 1, 2)
    usd = None if left.usd is None else left.usd * (1 - RESERVE) / parts
    tokens = None if left.tokens is None else int(left.tokens * (1 - RESERVE)) // parts
    calls = None if left.calls is None else int(left.calls * (1 - RESERVE)) // parts
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

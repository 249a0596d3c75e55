"""What is set aside for the children of a session while they are at work: each has a share of its own, which
nobody else can take. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mainspring.events import Cap, ChildStarted, SpendReserved
from mainspring.folds.caps import cap_of


class Tally(msgspec.Struct, frozen=True):
    """What was used in one scope, with the reserved but for `settled_usd`; `day` is the date of a day's."""

    usd: float = 0.0
    settled_usd: float = 0.0
    tokens: int = 0
    steps: int = 0
    calls: int = 0
    time_s: float = 0.0
    day: str = ""


def what_is_left(capped: Iterable[tuple[Cap, Tally]]) -> Cap:
    """What all these caps leave of money, tokens and calls; None is no limit."""
    caps = list(capped)
    left = {
        unit: min(
            (
                max(most - getattr(used, unit), 0)
                for cap, used in caps
                if (most := getattr(cap, unit)) is not None
            ),
            default=None,
        )
        for unit in ("usd", "tokens", "calls")
    }
    return Cap(**left)


class Share(msgspec.Struct):
    """What a child may use in all, and what it has spent of it."""

    cap: Cap
    usd: float = 0.0
    tokens: int = 0


class Shares:
    """The shares of children at work, by child."""

    def __init__(self) -> None:
        self.open: dict[str, Share] = {}

    def begin(self, started: ChildStarted) -> None:
        session, turn = cap_of(started.limits, "session"), cap_of(started.limits, "turn")
        self.open[started.child] = Share(Cap(usd=session.usd, tokens=session.tokens, calls=turn.calls))

    def end(self, child: str) -> None:
        self.open.pop(child, None)

    def spend(self, child: str, usd: float, tokens: int) -> None:
        if share := self.open.get(child):
            share.usd += usd
            share.tokens += tokens

    def added(self, used: Tally, held: Iterable[SpendReserved], *, besides: str = "") -> Tally:
        """What is used, and what children other than one may still use: their shares, without what they spent
        or hold, which counts as used already."""
        if not self.open:
            return used
        holding = [each for each in held if each.child]
        usd, tokens, calls = used.usd, used.tokens, used.calls
        for child, share in self.open.items():
            calls += share.cap.calls or 0
            if child == besides:
                continue
            own = [each for each in holding if each.child == child]
            if share.cap.usd is not None:
                usd += max(share.cap.usd - share.usd - sum(each.usd for each in own), 0.0)
            if share.cap.tokens is not None:
                tokens += max(share.cap.tokens - share.tokens - sum(each.tokens for each in own), 0)
        return msgspec.structs.replace(used, usd=usd, tokens=tokens, calls=calls)

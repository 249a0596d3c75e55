"""Reserve before spending, settle after it, and never let the two exceed a cap.

The ledger is a fold of the journal. What is reserved and not settled counts as spent, so a crash between the
two can only make a session stingier. `hold` takes its amount at once, in memory, so that two spenders cannot
both pass the same check while their events are on the way to disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from mainspring.events import (
    BudgetWarned,
    CallStarted,
    Cap,
    CapScope,
    CapUnit,
    ChildEnded,
    ChildStarted,
    DocsStarted,
    Ending,
    GoalSet,
    Limits,
    SpendReserved,
    SpendSettled,
    TurnStarted,
    Usage,
)
from mainspring.events.counts import plural, rounded_usd
from mainspring.folds.caps import OWN_SCOPES, cap_of, own_caps
from mainspring.folds.shares import Shares, Tally, what_is_left
from mainspring.models import Price

STEP = "step"
"""The source of a spend that is a step of a turn."""

CALL = "call"
"""The source of a spend that is the price of a call."""

ENGINE = "engine"
"""The source of a spend that is a whole turn of an outside agent."""

Counted = CallStarted | TurnStarted | DocsStarted | GoalSet | BudgetWarned | ChildStarted | ChildEnded
"""The events that a ledger takes, beside spends."""

LEAST_OUTPUT_TOKENS = 64
"""A request that may not have so much back is not made."""

MODEST_OUTPUT_TOKENS = 8192
"""What a request may have back, as far as it can be paid, whatever else is under way."""

_CENT_OF_A_CENT = 1e-9
_WARNED_PERCENTS = (80, 50)
_OPTIONS = {
    ("turn", "steps"): "--max-steps",
    ("turn", "calls"): "--max-calls",
    ("turn", "time_s"): "--timeout",
    ("session", "usd"): "--max-cost-usd",
    ("session", "tokens"): "--max-tokens",
    ("goal", "usd"): "--max-cost-usd",
    ("goal", "tokens"): "--max-tokens",
    ("day", "usd"): "--max-cost-usd-today",
}


class Refusal(msgspec.Struct, frozen=True):
    """Why nothing more may be spent, what a person can do about it, and how a turn ends by it."""

    message: str
    remedy: str
    scope: CapScope
    unit: CapUnit
    ending: Ending = "budget"


class TimeLeft(msgspec.Struct, frozen=True):
    """How long a turn may still work, and what to say when that has passed."""

    time_s: float
    refusal: Refusal


class Ledger:
    def __init__(self) -> None:
        self.worked_us = 0
        self._scopes: dict[CapScope, OpenScope] = {scope: OpenScope() for scope in OWN_SCOPES}
        self._open = tuple(self._scopes.values())
        self._held: dict[str, HeldSpend] = {}
        self._warned: set[tuple[CapScope, str, int, float, str]] = set()
        self._has_goal = False
        self.shares = Shares()
        self.reservations = 0

    @property
    def spent_usd(self) -> float:
        return self.tally("session").usd

    @property
    def spent_tokens(self) -> int:
        return self.tally("session").tokens

    def tally(self, scope: CapScope) -> Tally:
        opened = self._scopes[scope]
        held = [each.reserved for each in self._held.values() if opened in each.scopes]
        return Tally(
            usd=rounded_usd(opened.usd + sum(spend.usd for spend in held)),
            settled_usd=opened.usd,
            tokens=opened.tokens + sum(spend.tokens for spend in held),
            steps=opened.steps,
            calls=opened.calls,
            time_s=(self.worked_us - opened.began_us) / 1e6,
        )

    def begin(self, scope: CapScope, seq: int) -> None:
        """From this event on the scope counts anew."""
        self._scopes[scope] = OpenScope(self.worked_us, seq)
        self._open = tuple(self._scopes.values())
        self._warned = {warned for warned in self._warned if warned[0] != scope}

    def began(self) -> dict[CapScope, int]:
        """The event with which each scope began."""
        return {scope: opened.began_seq for scope, opened in self._scopes.items()}

    def count_calls(self, scope: CapScope, count: int) -> None:
        """Counts calls that were started in a scope, without their events."""
        self._scopes[scope].calls += count

    def apply(self, event: Counted, seq: int) -> None:
        match event:
            case CallStarted():
                for opened in self._open:
                    opened.calls += 1
            case TurnStarted() | DocsStarted():
                self.begin("turn", seq)
            case GoalSet():
                if not self._has_goal:
                    self._has_goal = True
                    self.begin("goal", seq)
            case BudgetWarned():
                self._warned.add((event.scope, event.unit, event.percent, event.cap, event.day))
            case ChildStarted():
                self.shares.begin(event)
            case ChildEnded():
                self.shares.end(event.child)
                for opened in self._open:
                    opened.calls += event.calls

    def hold(self, reserved: SpendReserved) -> None:
        """Counts a reservation, also one that is not in the journal yet."""
        known = self._held.get(reserved.spend)
        self._held[reserved.spend] = HeldSpend(reserved, self._open)
        self.reservations += known is None
        if reserved.source == STEP:
            for opened in self._open:
                opened.steps += known is None or opened not in known.scopes

    def settle(self, settled: SpendSettled) -> None:
        held = self._held.pop(settled.spend, None)
        if held is None:
            return
        tokens = settled.usage.total_tokens
        self.shares.spend(held.reserved.child, settled.usd, tokens)
        for opened in held.scopes:
            opened.usd = rounded_usd(opened.usd + settled.usd)
            opened.tokens += tokens
            opened.steps -= settled.is_failed and held.reserved.source == STEP

    def affordable_output(
        self,
        price: Price | None,
        input_tokens: int,
        limits: Limits,
        *,
        wanted: int = MODEST_OUTPUT_TOKENS,
        is_step: bool,
        today: Tally | None,
        child: str = "",
    ) -> int | Refusal:
        """How many tokens one more request may give back at most, or why it may not be made. Beyond a modest
        reply, one request sets aside no more than a quarter of what is left: others may run beside it, and a
        crash can lose it. The request is that of a `child`, or else this session's own."""
        output = wanted
        for scope, cap, used in self._capped(limits, today, child):
            if is_step and cap.steps is not None and used.steps >= cap.steps:
                return _refused(scope, "steps", f"of {plural(cap.steps, 'step')} is reached", ending="limit")
            fitting = _fitting(scope, cap, used, price, input_tokens, 4 * wanted)
            if isinstance(fitting, Refusal):
                return fitting
            output = min(output, max(fitting // 4, min(fitting, MODEST_OUTPUT_TOKENS)))
        return output

    def least_left(
        self, limits: Limits, today: Tally | None, child: str = ""
    ) -> tuple[float, float, CapScope] | None:
        """The cap on money that leaves the least, what it leaves, and its scope; None without such a cap."""
        caps: list[tuple[float, float, CapScope]] = [
            (cap.usd, cap.usd - used.usd, scope)
            for scope, cap, used in self._capped(limits, today, child)
            if cap.usd is not None
        ]
        return min(caps, key=lambda cap: cap[1], default=None)

    def left(self, limits: Limits) -> Cap:
        """What the caps leave of money, tokens and calls beside all that is set aside; None is no limit."""
        return what_is_left((cap, used) for _, cap, used in self._capped(limits, None))

    def share_usd(self, limits: Limits) -> float | None:
        """What one turn of many may take when a crash can lose what it cost: what its own cap says, else a
        quarter of what is left, or a tenth of the whole if that is more. None when money is not capped."""
        least = self.least_left(limits, None)
        if least is None:
            return None
        cap_usd, left_usd = least[0], max(least[1], 0.0)
        is_told = cap_of(limits, "turn").usd is not None
        return left_usd if is_told else min(left_usd, max(left_usd / 4, cap_usd / 10))

    def reserved_usd(self, spend: str) -> float | None:
        """What is set aside under a name and not settled; None when nothing is."""
        held = self._held.get(spend)
        return held.reserved.usd if held else None

    def refuse_calls(self, count: int, limits: Limits) -> Refusal | None:
        """Why so many more calls may not be started."""
        for scope, cap, used in self._capped(limits, None):
            if cap.calls is not None and used.calls + count > cap.calls:
                most = plural(cap.calls, "call")
                reached = f"of {most} is reached: {used.calls:,} used, {count:,} more asked for"
                return _refused(scope, "calls", reached, ending="limit")
        return None

    def refuse_spent(
        self, reserved: SpendReserved, tokens: int, usd: float, limits: Limits
    ) -> Refusal | None:
        """Why what a reservation has cost so far passes a cap."""
        for scope, cap, used in self._capped(limits, None, reserved.child):
            spent_usd, spent = used.usd - reserved.usd + usd, used.tokens - reserved.tokens + tokens
            if cap.usd is not None and spent_usd > cap.usd + _CENT_OF_A_CENT:
                reached = f"is used up: {spent_usd:.4f} of {cap.usd:.4f} USD are spent"
                return Refusal(f"The budget{_of(scope)} {reached}.", _remedy(scope, "usd"), scope, "usd")
            if cap.tokens is not None and spent > cap.tokens:
                reached = f"is reached: {spent:,} of {cap.tokens:,} tokens are used"
                text = f"The token limit{_of(scope)} {reached}."
                return Refusal(text, _remedy(scope, "tokens"), scope, "tokens")
        return None

    def refuse_steps(self, count: int, limits: Limits) -> Refusal | None:
        """Why a turn of somebody else's may not have so many steps."""
        cap = cap_of(limits, "turn").steps
        if cap is not None and count > cap:
            return _refused("turn", "steps", f"of {plural(cap, 'step')} is reached", ending="limit")
        return None

    def time_left(self, limits: Limits) -> TimeLeft | None:
        """The shortest time that any scope leaves; None when none is limited."""
        lefts = [
            TimeLeft(
                max(cap.time_s - used.time_s, 0.0),
                Refusal(
                    f"The time limit{_of(scope, usual='turn')} of {cap.time_s:g} s is reached.",
                    _remedy(scope, "time_s"),
                    scope,
                    "time_s",
                    "limit",
                ),
            )
            for scope, cap, used in self._capped(limits, None)
            if cap.time_s is not None
        ]
        return min(lefts, key=lambda left: left.time_s, default=None)

    def warnings(self, settled: SpendSettled, limits: Limits) -> Iterator[BudgetWarned]:
        """The shares of caps that this settlement passes and that nobody was told of."""
        for scope, cap in own_caps(limits):
            opened = self._scopes[scope]
            held = self._held.get(settled.spend)
            is_known = held is not None and opened in held.scopes
            usd = opened.usd + (settled.usd if is_known else 0.0)
            tokens = opened.tokens + (settled.usage.total_tokens if is_known else 0)
            yield from self._new_shares(scope, cap, Tally(usd=usd, tokens=tokens))

    def day_warnings(
        self, settled: SpendSettled, limits: Limits, today: Tally | None
    ) -> Iterator[BudgetWarned]:
        """The same for the day, of which `today` says what all sessions had spent before."""
        if today is not None:
            usd, tokens = today.usd + settled.usd, today.tokens + settled.usage.total_tokens
            yield from self._new_shares("day", limits.day, Tally(usd=usd, tokens=tokens, day=today.day))

    def _new_shares(self, scope: CapScope, cap: Cap, used: Tally) -> Iterator[BudgetWarned]:
        units: tuple[tuple[Literal["usd", "tokens"], float | None, float], ...] = (
            ("usd", cap.usd, used.usd),
            ("tokens", cap.tokens, used.tokens),
        )
        for unit, most, spent in units:
            if most is None:
                continue
            percent = next((mark for mark in _WARNED_PERCENTS if spent * 100 >= most * mark), 0)
            told = (mark for mark in _WARNED_PERCENTS if (scope, unit, mark, most, used.day) in self._warned)
            if percent > max(told, default=0):
                yield BudgetWarned(
                    scope=scope, unit=unit, percent=percent, spent=spent, cap=most, day=used.day
                )

    def _capped(
        self, limits: Limits, today: Tally | None, child: str = ""
    ) -> Iterator[tuple[CapScope, Cap, Tally]]:
        """What children may still spend counts as used, but for the child that is about to."""
        for scope, cap in own_caps(limits):
            held = (each.reserved for each in self._held.values()) if self.shares.open else ()
            yield scope, cap, self.shares.added(self.tally(scope), held, besides=child)
        if today is not None:
            yield "day", limits.day, today


class OpenScope(msgspec.Struct, eq=False):
    """One scope: what is done in it, how long the ledger had worked before it began, and with which event."""

    began_us: int = 0
    began_seq: int = 0
    usd: float = 0.0
    tokens: int = 0
    steps: int = 0
    calls: int = 0


class HeldSpend(msgspec.Struct, frozen=True):
    """A reservation, and the scopes that were open when it was made: it counts in these."""

    reserved: SpendReserved
    scopes: tuple[OpenScope, ...]


def _fitting(
    scope: CapScope, cap: Cap, used: Tally, price: Price | None, input_tokens: int, output: int
) -> int | Refusal:
    """What output, up to this, fits into one scope's tokens and money."""
    if cap.tokens is not None:
        left = cap.tokens - used.tokens - input_tokens
        if left < LEAST_OUTPUT_TOKENS:
            return Refusal(
                f"The token limit{_of(scope)} is reached: {used.tokens:,} of {cap.tokens:,} tokens are"
                f" used, and the next request needs about {input_tokens:,}.",
                _remedy(scope, "tokens"),
                scope,
                "tokens",
            )
        output = min(output, left)
    if cap.usd is None:
        return output
    if price is not None:
        output = _affordable(price, input_tokens, output, cap.usd - used.usd + _CENT_OF_A_CENT)
    if output < LEAST_OUTPUT_TOKENS or used.usd >= cap.usd - _CENT_OF_A_CENT > 0:
        return Refusal(
            f"The budget{_of(scope)} is used up: {used.usd:.4f} of {cap.usd:.4f} USD are spent,"
            " and the next request does not fit into the rest.",
            _remedy(scope, "usd"),
            scope,
            "usd",
        )
    return output


def most_usd(price: Price, usage: Usage) -> float:
    """What a request may cost at most: its input may be fresh, or be written to a cache for more."""
    written = msgspec.structs.replace(usage, cache_write_tokens=usage.input_tokens)
    return max(price.cost_usd(usage), price.cost_usd(written))


def _affordable(price: Price, input_tokens: int, output: int, left_usd: float) -> int:
    """The largest output up to `output` that the money pays for; -1 when it does not pay for the input."""
    least, most = -1, output
    while least < most:
        middle = (least + most + 1) // 2
        usage = Usage(input_tokens=input_tokens, output_tokens=middle)
        if most_usd(price, usage) <= left_usd:
            least = middle
        else:
            most = middle - 1
    return least


def _refused(scope: CapScope, unit: CapUnit, reached: str, *, ending: Ending) -> Refusal:
    text = f"The limit{_of(scope, usual='turn')} {reached}."
    return Refusal(text, _remedy(scope, unit), scope, unit, ending)


def _of(scope: CapScope, usual: CapScope = "session") -> str:
    return "" if scope == usual else f" of this {scope}"


def _remedy(scope: CapScope, unit: CapUnit) -> str:
    option = _OPTIONS.get((scope, unit))
    if option:
        return f"Resume with a higher {option} to go on."
    return f"Raise `{unit}` in [caps.{scope}] of config.toml, then resume to go on."

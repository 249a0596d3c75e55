"""Reserve before spending, settle after it, and never let the two exceed a cap.

The ledger is a fold of `SpendReserved` and `SpendSettled`. What is reserved and not settled counts as spent,
so a crash between the two can only make a session stingier. `reserve` holds its amount at once, in memory,
so that two spenders cannot both pass the same check while their events are on the way to disk.
"""

from __future__ import annotations

import msgspec

from mainspring.events import Event, Limits, SpendReserved, SpendSettled, Usage
from mainspring.models import Price

_LEAST_OUTPUT_TOKENS = 64
_USUAL_OUTPUT_TOKENS = 8192
_CENT_OF_A_CENT = 1e-9


class Refusal(msgspec.Struct, frozen=True):
    """Why nothing more may be spent, and what a person can do about it."""

    message: str
    remedy: str


class Ledger:
    def __init__(self) -> None:
        self._open: dict[str, SpendReserved] = {}
        self._settled_usd = 0.0
        self._settled_tokens = 0

    @property
    def spent_usd(self) -> float:
        return self._settled_usd + sum(spend.usd for spend in self._open.values())

    @property
    def spent_tokens(self) -> int:
        return self._settled_tokens + sum(spend.tokens for spend in self._open.values())

    def apply(self, event: Event) -> None:
        match event:
            case SpendReserved():
                self._open[event.spend] = event
            case SpendSettled():
                if self._open.pop(event.spend, None) is not None:
                    self._settled_usd += event.usd
                    self._settled_tokens += event.usage.total_tokens
            case _:
                pass

    def reserve(
        self, spend: str, *, source: str, model: str, price: Price | None, input_tokens: int, limits: Limits
    ) -> SpendReserved | Refusal:
        """Sets aside what one request may cost at most, or says why it may not be made."""
        output = self._affordable_output(price, input_tokens, limits)
        if isinstance(output, Refusal):
            return output
        usage = Usage(input_tokens=input_tokens, output_tokens=output)
        reserved = SpendReserved(
            spend=spend,
            source=source,
            model=model,
            tokens=usage.total_tokens,
            usd=price.cost_usd(usage) if price else 0.0,
            priced=price is not None,
        )
        self._open[spend] = reserved
        return reserved

    def _affordable_output(self, price: Price | None, input_tokens: int, limits: Limits) -> int | Refusal:
        output = _USUAL_OUTPUT_TOKENS
        if limits.max_tokens is not None:
            left = limits.max_tokens - self.spent_tokens - input_tokens
            if left < _LEAST_OUTPUT_TOKENS:
                return Refusal(
                    f"The token limit is reached: {self.spent_tokens:,} of {limits.max_tokens:,} tokens are"
                    f" used, and the next request needs about {input_tokens:,}.",
                    "Resume with a higher --max-tokens to go on.",
                )
            output = min(output, left)
        if limits.max_cost_usd is None or price is None:
            return output
        left_usd = limits.max_cost_usd - self.spent_usd - price.cost_usd(Usage(input_tokens=input_tokens))
        if price.output > 0:
            output = min(output, int((left_usd + _CENT_OF_A_CENT) * 1_000_000 / price.output))
        if left_usd < -_CENT_OF_A_CENT or output < _LEAST_OUTPUT_TOKENS:
            return Refusal(
                f"The budget is used up: {self.spent_usd:.4f} of {limits.max_cost_usd:.4f} USD are spent,"
                " and the next request does not fit into the rest.",
                "Resume with a higher --max-cost-usd to go on.",
            )
        return output

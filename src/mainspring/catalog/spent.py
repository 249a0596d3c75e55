"""What sessions spent, and what for."""

from __future__ import annotations

import msgspec

from mainspring.events.counts import rounded_usd


class Purpose(msgspec.Struct, frozen=True):
    """What a spend was for: the day (of local time) on which it was reserved, the model, its source, and the
    person whose word it followed."""

    day: str
    model: str
    source: str
    person: str = ""


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Money and tokens. `unsettled` of the requests were reserved and their end was not recorded; `saved_usd`
    is what the providers' caches saved."""

    usd: float = 0.0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    held_tokens: int = 0
    requests: int = 0
    steps: int = 0
    unsettled: int = 0
    unpriced: int = 0
    saved_usd: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.held_tokens

    def plus(self, other: Spent) -> Spent:
        total = Spent(*(getattr(self, name) + getattr(other, name) for name in Spent.__struct_fields__))
        return msgspec.structs.replace(
            total, usd=rounded_usd(total.usd), saved_usd=rounded_usd(total.saved_usd)
        )


class Reserved(msgspec.Struct, frozen=True):
    """A reservation without a settlement, and what it was for."""

    key: str
    spent: Spent


class SessionSpend(msgspec.Struct, frozen=True):
    """What one session spent, by purpose; `problem` says why it may be more."""

    id: str
    spent: dict[Purpose, Spent]
    problem: str = ""

"""The maintained price list, read for one model. Importing it takes a fifth of a second: see `prices.py`."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelPrice, TieredPrices

from mainspring.models import LongPrice, Price


def look_up(provider: str, model: str, now: datetime) -> tuple[Price | None, int | None]:
    """The price of a model at a moment, and how much context it takes; None for what is not listed."""
    try:
        _, found = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None, None
    listed = found.get_prices(now)
    if listed.input_mtok is None or listed.output_mtok is None:
        return None, found.context_window
    starts = sorted(
        {
            tier.start
            for amount in (listed.input_mtok, listed.output_mtok)
            if isinstance(amount, TieredPrices)
            for tier in amount.tiers
        }
    )
    plain = _price_at(listed, 0)
    long = tuple(LongPrice(start, _price_at(listed, start + 1)) for start in starts)
    return Price(plain.input, plain.output, plain.cached, plain.cache_write, long), found.context_window


def _price_at(listed: ModelPrice, input_tokens: int) -> Price:
    return Price(
        input=_amount(listed.input_mtok, input_tokens) or 0.0,
        output=_amount(listed.output_mtok, input_tokens) or 0.0,
        cached=_amount(listed.cache_read_mtok, input_tokens),
        cache_write=_amount(listed.cache_write_mtok, input_tokens),
    )


def _amount(amount: Decimal | TieredPrices | None, input_tokens: int) -> float | None:
    if isinstance(amount, TieredPrices):
        reached = [tier.price for tier in amount.tiers if input_tokens > tier.start]
        amount = reached[-1] if reached else amount.base
    return None if amount is None else float(amount)

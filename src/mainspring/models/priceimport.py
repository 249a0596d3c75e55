"""Makes a table of prices from the installed genai-prices: what `make prices` ships, and what
`mainspring models prices --refresh` takes over. It needs the extra `prices` and takes 200 ms to import.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version

import msgspec
from genai_prices import types as listed
from genai_prices.data_snapshot import get_snapshot

from mainspring.models import LongPrice, Price
from mainspring.models.pricelist import (
    AllOf,
    AnyOf,
    Contains,
    EndsWith,
    Equals,
    ListedModel,
    ListedProvider,
    Period,
    PriceTable,
    Regex,
    Rule,
    StartsWith,
)


def import_table(day: date) -> PriceTable:
    """The table of the installed genai-prices, dated with the day on which it is taken."""
    providers = tuple(_provider(each) for each in get_snapshot().providers)
    return PriceTable(version=version("genai-prices"), day=day, providers=providers)


def encode_table(table: PriceTable) -> bytes:
    """A table as JSON with one line for each model, so that two tables can be compared line by line."""
    providers: list[bytes] = []
    for each in table.providers:
        head = msgspec.json.encode(msgspec.structs.replace(each, models=()))
        models = b",\n".join(map(msgspec.json.encode, each.models))
        providers.append(head.removesuffix(b"]}") + b"\n" + models + b"\n]}")
    head = msgspec.json.encode(msgspec.structs.replace(table, providers=()))
    return head.removesuffix(b"]}") + b"\n" + b",\n".join(providers) + b"\n]}\n"


def _provider(provider: listed.Provider) -> ListedProvider:
    return ListedProvider(
        id=provider.id,
        match=_rule(provider.provider_match) if provider.provider_match else None,
        models_of=tuple(provider.fallback_model_providers or ()),
        models=tuple(_model(each) for each in provider.models),
    )


def _model(model: listed.ModelInfo) -> ListedModel:
    prices = model.prices
    if isinstance(prices, listed.ModelPrice):
        periods = (Period(_price(prices)),)
    else:
        periods = tuple(_period(each) for each in prices)
    return ListedModel(model.id, _rule(model.match), periods, model.context_window)


def _period(conditional: listed.ConditionalPrice) -> Period:
    price = _price(conditional.prices)
    match conditional.constraint:
        case None:
            return Period(price)
        case listed.StartDateConstraint(start_date):
            return Period(price, from_day=start_date)
        case listed.TimeOfDateConstraint(start, end):
            return Period(price, from_time=_in_utc(start), to_time=_in_utc(end))


def _price(amounts: listed.ModelPrice) -> Price | None:
    if amounts.input_mtok is None or amounts.output_mtok is None:
        return None
    starts = sorted(
        {
            tier.start
            for amount in (amounts.input_mtok, amounts.output_mtok)
            if isinstance(amount, listed.TieredPrices)
            for tier in amount.tiers
        }
    )
    long = tuple(LongPrice(start, _price_at(amounts, start + 1)) for start in starts)
    return msgspec.structs.replace(_price_at(amounts, 0), long=long)


def _price_at(amounts: listed.ModelPrice, input_tokens: int) -> Price:
    return Price(
        input=_amount(amounts.input_mtok, input_tokens) or 0.0,
        output=_amount(amounts.output_mtok, input_tokens) or 0.0,
        cached=_amount(amounts.cache_read_mtok, input_tokens),
        cache_write=_amount(amounts.cache_write_mtok, input_tokens),
    )


def _amount(amount: Decimal | listed.TieredPrices | None, input_tokens: int) -> float | None:
    if isinstance(amount, listed.TieredPrices):
        reached = [tier.price for tier in amount.tiers if input_tokens > tier.start]
        amount = reached[-1] if reached else amount.base
    return None if amount is None else float(amount)


def _rule(clause: object) -> Rule:
    match clause:
        case listed.ClauseEquals(text):
            return Equals(text.lower())
        case listed.ClauseStartsWith(text):
            return StartsWith(text.lower())
        case listed.ClauseEndsWith(text):
            return EndsWith(text.lower())
        case listed.ClauseContains(text):
            return Contains(text.lower())
        case listed.ClauseRegex(pattern):
            return Regex(pattern)
        case listed.ClauseOr(clauses):
            return AnyOf(tuple(_rule(each) for each in clauses))
        case listed.ClauseAnd(clauses):
            return AllOf(tuple(_rule(each) for each in clauses))
        case _:
            raise TypeError(f"genai-prices has a kind of rule that is not known here: {clause!r}")


def _in_utc(moment: time) -> time:
    """A time of day of the list: without a time zone it is UTC."""
    if moment.tzinfo is None:
        return moment
    return datetime.combine(date(1970, 1, 1), moment).astimezone(UTC).time()

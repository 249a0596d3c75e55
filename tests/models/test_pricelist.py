"""The shipped table says what the installed genai-prices says, for every model and every name that it matches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache

import msgspec
import pytest
from genai_prices import Usage as ListUsage
from genai_prices import types as listed
from genai_prices.data_snapshot import get_snapshot

from mainspring.events import Usage
from mainspring.models import LongPrice, Price
from mainspring.models.priceimport import encode_table, import_table
from mainspring.models.pricelist import SHIPPED, PriceTable, is_newer, read_table
from mainspring.models.providers import PROVIDERS

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
TOKENS = {"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok"}


@cache
def shipped() -> PriceTable:
    return read_table(SHIPPED)


def expected(model: listed.ModelInfo, now: datetime) -> tuple[Price | None, int | None]:
    """What genai-prices says of a model, in our words."""
    prices = model.get_prices(now)
    if prices.input_mtok is None or prices.output_mtok is None:
        return None, model.context_window
    tiered = [
        each for each in (prices.input_mtok, prices.output_mtok) if isinstance(each, listed.TieredPrices)
    ]
    starts = sorted({tier.start for each in tiered for tier in each.tiers})
    plain, *long = (price_at(prices, tokens) for tokens in (0, *(start + 1 for start in starts)))
    steps = tuple(LongPrice(start, price) for start, price in zip(starts, long, strict=True))
    return msgspec.structs.replace(plain, long=steps), model.context_window


def price_at(prices: listed.ModelPrice, tokens: int) -> Price:
    """What a token costs in a request of so many."""
    put_in, got_out = amount(prices.input_mtok, tokens), amount(prices.output_mtok, tokens)
    assert put_in is not None
    assert got_out is not None
    cache_read, cache_write = (
        amount(each, tokens) for each in (prices.cache_read_mtok, prices.cache_write_mtok)
    )
    return Price(put_in, got_out, cache_read, cache_write)


def amount(listed_amount: Decimal | listed.TieredPrices | None, tokens: int) -> float | None:
    if isinstance(listed_amount, listed.TieredPrices):
        price = listed_amount.base
        for tier in listed_amount.tiers:
            price = tier.price if tokens > tier.start else price
        return float(price)
    return None if listed_amount is None else float(listed_amount)


def by_the_list(provider: str, name: str, now: datetime) -> tuple[Price | None, int | None]:
    try:
        _, model = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        return None, None
    return expected(model, now)


def texts(clause: object) -> Iterator[str]:
    for value in vars(clause).values():
        if isinstance(value, str):
            yield value
        else:
            for each in value:
                yield from texts(each)


def names(provider: listed.Provider) -> Iterator[str]:
    """Names that mean a model of the provider, and names that only look like one."""
    for model in provider.models:
        for text in {model.id, *texts(model.match)}:
            yield text
            yield f"{text.upper()}-latest"
            yield f"{text}-20251211"
            yield f"x{text}:free"
    yield "no-such-model-20251399"


def moments(model: listed.ModelInfo) -> Iterator[datetime]:
    yield NOW
    for each in model.prices if isinstance(model.prices, list) else ():
        match each.constraint:
            case listed.StartDateConstraint(day):
                start = datetime.combine(day, time(), UTC)
                yield from (start, start - timedelta(seconds=1))
            case listed.TimeOfDateConstraint(start, end):
                for edge in (start, end):
                    moment = datetime.combine(NOW.date(), edge, edge.tzinfo or UTC)
                    yield from (moment, moment - timedelta(seconds=1))
            case None:
                pass


def test_the_shipped_table_is_the_installed_list() -> None:
    table = shipped()
    assert import_table(table.day) == table, "run `make prices`"
    assert encode_table(table) == SHIPPED.read_bytes(), "run `make prices`"


@pytest.mark.parametrize("provider", get_snapshot().providers, ids=lambda each: each.id)
def test_every_model_costs_what_the_list_says_at_every_moment(provider: listed.Provider) -> None:
    ours = next(each for each in shipped().providers if each.id == provider.id)
    for model, known in zip(provider.models, ours.models, strict=True):
        for now in moments(model):
            assert (known.price_at(now.astimezone(UTC)), known.context_tokens) == expected(model, now), (
                model.id
            )


@pytest.mark.parametrize("provider", get_snapshot().providers, ids=lambda each: each.id)
def test_every_name_means_the_model_that_the_list_means(provider: listed.Provider) -> None:
    for name in names(provider):
        assert shipped().look_up(provider.id, name, NOW) == by_the_list(provider.id, name, NOW), name


@pytest.mark.parametrize(
    "provider",
    [
        "HuggingFace_groq",
        " openai ",
        "my-anthropic",
        "huggingface_",
        "huggingface_x",
        "mistralai",
        "google",
        "azure",
        "",
    ],
)
def test_every_provider_is_found_as_the_list_finds_it(provider: str) -> None:
    for name in ("gpt-4o", "claude-sonnet-4-5", "openai/gpt-oss-120b", "mistral-large-latest"):
        assert shipped().look_up(provider, name, NOW) == by_the_list(provider, name, NOW), name


def test_a_request_costs_what_the_list_itself_calculates() -> None:
    compared = 0
    for provider in get_snapshot().providers:
        for model in provider.models:
            price, _ = expected(model, NOW)
            if price is None or not TOKENS.issuperset(vars(model.get_prices(NOW))):
                continue
            for scale in (1, 1_000):
                counts = {"input_tokens": 900 * scale, "output_tokens": 70 * scale}
                cached = {"cache_read_tokens": 300 * scale, "cache_write_tokens": 200 * scale}
                asked = model.calc_price(ListUsage(**counts, **cached), provider, genai_request_timestamp=NOW)
                ours = Usage(**counts, cached_tokens=300 * scale, cache_write_tokens=200 * scale)
                assert price.cost_usd(ours) == pytest.approx(float(asked.total_price)), model.id
                compared += 1
    assert compared > 2_000


def test_every_provider_of_ours_is_in_the_table() -> None:
    listed_ids = {each.id for each in shipped().providers} | {"huggingface"}
    assert {each.price_id for each in PROVIDERS if each.price_id} <= listed_ids


def test_versions_are_compared_by_their_numbers() -> None:
    assert is_newer("0.10.0", "0.9.1")
    assert not is_newer("0.2.1", "0.2.1")
    assert shipped().day >= date(2026, 11, 16)

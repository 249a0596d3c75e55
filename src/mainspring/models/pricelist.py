"""A table of prices: who offers which models, how their names are matched, and what they cost when.

The table is data (`prices.json` beside this file, written by `make prices` from genai-prices) and dated. The
order of providers and models is part of it: the first that matches counts. Names are matched as genai-prices
matches them, which `tests/models/test_pricelist.py` compares model by model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import assert_never

import msgspec

from mainspring.models import Price

SHIPPED = Path(__file__).with_name("prices.json")

_COMPACT_DATE = re.compile(r"(?<=-)(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")


class Equals(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="="):
    text: str


class StartsWith(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="^"):
    text: str


class EndsWith(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="$"):
    text: str


class Contains(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="*"):
    text: str


class Regex(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="~"):
    pattern: str


class AnyOf(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="any"):
    rules: tuple[Rule, ...]


class AllOf(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="all"):
    rules: tuple[Rule, ...]


Rule = Equals | StartsWith | EndsWith | Contains | Regex | AnyOf | AllOf


class Period(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A price, from a day on or between two times of each day (UTC). Without a price the model is listed, but
    not by input and output tokens."""

    price: Price | None = None
    from_day: date | None = None
    from_time: time | None = None
    to_time: time | None = None

    def is_on(self, now: datetime) -> bool:
        if self.from_day is not None:
            return now.date() >= self.from_day
        if self.from_time is None or self.to_time is None:
            return True
        moment = now.time()
        if self.to_time < self.from_time:
            return moment >= self.from_time or moment < self.to_time
        return self.from_time <= moment < self.to_time


class ListedModel(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`prices` in the order of the list: the last that is on counts, and the first when none is."""

    id: str
    match: Rule
    prices: tuple[Period, ...]
    context_tokens: int | None = None

    def price_at(self, now: datetime) -> Price | None:
        return next((each for each in reversed(self.prices) if each.is_on(now)), self.prices[0]).price


class ListedProvider(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """`models_of` names the providers whose models it offers as well, at their prices."""

    id: str
    match: Rule | None = None
    models_of: tuple[str, ...] = ()
    models: tuple[ListedModel, ...]


class PriceTable(msgspec.Struct, frozen=True, gc=False):
    """`version` is that of genai-prices, and `day` when the table was taken from it."""

    version: str
    day: date
    providers: tuple[ListedProvider, ...]

    def __str__(self) -> str:
        models = sum(len(each.models) for each in self.providers)
        return f"{models:,} models, from genai-prices {self.version} on {self.day}"

    def look_up(self, provider: str, model: str, now: datetime) -> tuple[Price | None, int | None]:
        """The price of a model at a moment, and how much context it takes; None for what is not listed."""
        found = self._find(provider.lower().strip(), model.lower())
        return (found.price_at(now.astimezone(UTC)), found.context_tokens) if found else (None, None)

    def _find(self, provider_id: str, name: str) -> ListedModel | None:
        provider = self._provider(provider_id)
        if provider is None:
            return None
        # Some servers write dates as -20251211 where the list has -2025-12-11.
        for each in (name, _COMPACT_DATE.sub(_with_dashes, name)):
            found = next((model for model in self._offered(provider) if matches(model.match, each)), None)
            if found:
                return found
        return None

    def _provider(self, provider_id: str) -> ListedProvider | None:
        for each in self.providers:
            if each.id == provider_id:
                return each
        return next(
            (each for each in self.providers if each.match and matches(each.match, provider_id)), None
        )

    def _offered(self, provider: ListedProvider) -> Iterator[ListedModel]:
        yield from provider.models
        for other in provider.models_of:
            yield from next((each.models for each in self.providers if each.id == other), ())


def load_table(refreshed: Path | None = None) -> PriceTable:
    """The shipped table, or the one in the file `refreshed` if it is of a newer genai-prices. A file that is
    missing, or that another version of ours wrote in another form, is not used."""
    shipped = read_table(SHIPPED)
    try:
        own = read_table(refreshed) if refreshed else shipped
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return shipped
    return own if is_newer(own.version, shipped.version) else shipped


def read_table(path: Path) -> PriceTable:
    return msgspec.json.decode(path.read_bytes(), type=PriceTable)


def is_newer(version: str, other: str) -> bool:
    return _numbers(version) > _numbers(other)


def matches(rule: Rule, name: str) -> bool:
    """Whether a name, in small letters, is one that the rule means."""
    match rule:
        case Equals(text):
            return name == text
        case StartsWith(text):
            return name.startswith(text)
        case EndsWith(text):
            return name.endswith(text)
        case Contains(text):
            return text in name
        case Regex(pattern):
            return re.search(pattern, name) is not None
        case AnyOf(rules):
            return any(matches(each, name) for each in rules)
        case AllOf(rules):
            return all(matches(each, name) for each in rules)
        case _:
            assert_never(rule)


def _numbers(version: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", version)]


def _with_dashes(found: re.Match[str]) -> str:
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
    except ValueError:
        return found[0]

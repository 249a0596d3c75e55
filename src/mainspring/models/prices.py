"""What a model costs and how much it takes: the user's own prices first, then a dated table.

A model on this machine costs nothing; one that nobody lists has no price. The table is read when a price is
first asked for, which takes 5 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.models import Price
from mainspring.models.providers import ModelSpec

if TYPE_CHECKING:
    from mainspring.models.pricelist import PriceTable

FREE = Price()


class KnownPrice(msgspec.Struct, frozen=True):
    price: Price | None = None
    context_tokens: int | None = None


class PriceBook:
    def __init__(
        self,
        own: Mapping[str, Price] | None = None,
        *,
        windows: Mapping[str, int] | None = None,
        refreshed: Path | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """`own` prices and `windows` (in tokens) are named by what a user writes or by a model's name.
        `refreshed` is a table that replaces the shipped one when it is newer."""
        self._own = own or {}
        self._windows = windows or {}
        self._refreshed = refreshed
        self._now = now or (lambda: datetime.now(UTC))

    @cached_property
    def table(self) -> PriceTable:
        return import_module("mainspring.models.pricelist").load_table(self._refreshed)

    def find(self, spec: ModelSpec, name: str = "") -> KnownPrice:
        provider = spec.provider
        names = (name, f"{provider.id}/{spec.model}", spec.model)
        own = next((self._own[each] for each in names if each in self._own), None)
        window = next((self._windows[each] for each in names if each in self._windows), None)
        if provider.is_local:
            return KnownPrice(own or FREE, window)
        listed = self._listed(provider.price_id, spec.model) if provider.price_id else KnownPrice()
        return KnownPrice(own or listed.price, window or listed.context_tokens)

    def _listed(self, provider: str, model: str) -> KnownPrice:
        return KnownPrice(*self.table.look_up(*_hosted(provider, model), self._now()))


def refreshed_path(home: Path) -> Path:
    """Where `models prices --refresh` keeps the table that it took over."""
    return home / "price-table.json"


def _hosted(provider: str, model: str) -> tuple[str, str]:
    """Hugging Face names the host behind the model: `org/model:host`."""
    if provider != "huggingface":
        return provider, model
    name, _, host = model.partition(":")
    return f"huggingface_{host}", name

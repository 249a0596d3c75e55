"""What a model costs and how much it takes: the user's own prices first, then a maintained list.

A model on this machine costs nothing; one that nobody lists has no price. The list is loaded only when it is
needed, and what it said is kept in a file for the day, because loading it takes a fifth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mainspring.models import Price
from mainspring.models.providers import ModelSpec

FREE = Price()


class Known(msgspec.Struct, frozen=True):
    price: Price | None = None
    context_tokens: int | None = None


class _Kept(msgspec.Struct):
    """What the list said, while the list is the same and the day lasts."""

    list: str
    models: dict[str, Known] = {}


class PriceBook:
    def __init__(
        self,
        own: Mapping[str, Price] | None = None,
        *,
        windows: Mapping[str, int] | None = None,
        kept: Path | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """`own` prices and `windows` (in tokens) are named by what a user writes or by a model's name.
        `kept` is where to remember."""
        self._own = own or {}
        self._windows = windows or {}
        self._file = kept
        self._now = now or (lambda: datetime.now(UTC))

    def find(self, spec: ModelSpec, name: str = "") -> Known:
        provider = spec.provider
        names = (name, f"{provider.id}/{spec.model}", spec.model)
        own = next((self._own[each] for each in names if each in self._own), None)
        window = next((self._windows[each] for each in names if each in self._windows), None)
        if provider.is_local:
            return Known(own or FREE, window)
        listed = self._listed(provider.price_id, spec.model) if provider.price_id else Known()
        return Known(own or listed.price, window or listed.context_tokens)

    def _listed(self, provider: str, model: str) -> Known:
        provider, model = _hosted(provider, model)
        key = f"{provider}/{model}"
        now = self._now()
        kept = self._read(f"{_list_version()} {now.date()}")
        found = kept.models.get(key)
        if found is None:
            look_up = import_module("mainspring.models.pricelist").look_up
            price, context_tokens = look_up(provider, model, now)
            found = kept.models[key] = Known(price, context_tokens)
            self._write(kept)
        return found

    def _read(self, version: str) -> _Kept:
        try:
            kept = msgspec.json.decode(self._file.read_bytes(), type=_Kept) if self._file else None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            kept = None
        return kept if kept is not None and kept.list == version else _Kept(version)

    def _write(self, kept: _Kept) -> None:
        # The file only saves time: where it cannot be written, the list is read again.
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside = self._file.with_suffix(".new")
            beside.write_bytes(msgspec.json.encode(kept))
            beside.replace(self._file)
        except OSError:
            return


def _list_version() -> str:
    spec = find_spec("genai_prices")
    origin = spec.origin if spec else None
    return str(Path(origin).stat().st_mtime_ns) if origin else ""


def _hosted(provider: str, model: str) -> tuple[str, str]:
    """Hugging Face names the host behind the model: `org/model:host`."""
    if provider != "huggingface":
        return provider, model
    name, _, host = model.partition(":")
    return f"huggingface_{host}", name

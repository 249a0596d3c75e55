"""Figures as a person reads them."""

from __future__ import annotations

from mainspring.documents.blocks import Mono, Span, Spans, Tone, Toned
from mainspring.events.moments import date_of
from mainspring.waits.describe import duration

_SHORT_S = 10
_HASH = 12
_TONES: dict[str, Tone] = {
    "done": "good",
    "passed": "good",
    "verified": "good",
    "checked": "doubt",
    "claimed": "doubt",
    "proved": "good",
    "better": "good",
    "ok": "good",
    "refused": "bad",
    "failed": "bad",
    "refuted": "bad",
    "worse": "bad",
    "error": "bad",
    "open": "doubt",
    "assumed": "doubt",
    "unknown": "doubt",
}


def when(time_us: int) -> str:
    return date_of(time_us).strftime("%Y-%m-%d %H:%M:%S UTC")


def seconds(length_s: float) -> str:
    return f"{length_s:.1f} s" if 0 < length_s < _SHORT_S else duration(length_s)


def money(usd: float) -> str:
    return f"{usd:.4f} USD" if usd else "0 USD"


def size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def figure(value: float) -> str:
    """Three significant digits."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if 1000 <= abs(rounded) < 1e9 else f"{rounded:.3g}"


def with_spread(median: float, spread: float, unit: str = "") -> str:
    told = f"{figure(median)} ± {figure(spread)}" if spread else figure(median)
    return f"{told} {unit}".rstrip()


def event(seq: int) -> str:
    return f"event {seq}" if seq else "no event"


def events(seqs: tuple[int, ...]) -> str:
    named = ", ".join(map(str, seqs))
    return f"event {named}" if len(seqs) == 1 else f"events {named}"


def digest(sha256: str) -> Spans:
    return (Mono(sha256[:_HASH]),) if sha256 else ()


def code(exit_code: int | None) -> str:
    return "" if exit_code is None else str(exit_code)


def toned(word: str) -> Span:
    tone = _TONES.get(word)
    return Toned(word, tone) if tone else word

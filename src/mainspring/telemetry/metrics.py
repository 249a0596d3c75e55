"""What spans come to: counters and histograms, which only grow for as long as a process counts, and gauges,
which say how things stand. Where the semantic conventions have a name for something, it has that one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from mainspring.telemetry.describe import COST, SOURCE
from mainspring.telemetry.spans import TraceSpan

Labels = Mapping[str, str]
MetricKind = Literal["counter", "gauge", "histogram"]

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_LONG_SECONDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
_TOKENS = tuple(float(4**power) for power in range(14))
_REQUEST = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
_KINDS_OF_TOKENS = {
    "input": "gen_ai.usage.input_tokens",
    "cached": "gen_ai.usage.cache_read.input_tokens",
    "cache_written": "gen_ai.usage.cache_creation.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
_MOST_SERIES = 1000


class Histogram(msgspec.Struct, kw_only=True):
    """How often values fell into which bucket; a bound is the highest value of its bucket."""

    bounds: tuple[float, ...]
    counts: list[int]
    sum: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


_Key = tuple[tuple[str, str], ...]
_Values = dict[_Key, int | float | Histogram]


class Series(msgspec.Struct, frozen=True):
    """The values of one combination of labels."""

    labels: Labels
    value: int | float | Histogram


class CountedMetric(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: MetricKind
    unit: str
    help: str
    series: tuple[Series, ...] = ()


class _Spec(msgspec.Struct, frozen=True):
    kind: MetricKind
    unit: str
    help: str
    bounds: tuple[float, ...] = ()


_SPECS: dict[str, _Spec] = {
    "gen_ai.client.operation.duration": _Spec(
        "histogram", "s", "How long requests to models took.", _SECONDS
    ),
    "gen_ai.client.token.usage": _Spec("histogram", "{token}", "Tokens of one request.", _TOKENS),
    "gen_ai.execute_tool.duration": _Spec("histogram", "s", "How long calls of tools took.", _SECONDS),
    "gen_ai.invoke_agent.duration": _Spec("histogram", "s", "How long turns took.", _LONG_SECONDS),
    "mainspring.wait.duration": _Spec("histogram", "s", "How long sessions waited.", _LONG_SECONDS),
    "mainspring.approval.duration": _Spec("histogram", "s", "How long people took to answer.", _LONG_SECONDS),
    "mainspring.turns": _Spec("counter", "{turn}", "Turns that ended, by how."),
    "mainspring.tokens": _Spec(
        "counter", "{token}", "Tokens by model; cached ones are part of the input, reasoning of the output."
    ),
    "mainspring.cost": _Spec("counter", "USD", "What requests and calls cost, by model."),
}


class SpanMetrics:
    """Counts spans. Which labels there are comes from the work; there are never more than so many of one
    metric, and what comes later is not counted apart."""

    def __init__(self) -> None:
        self._values: dict[str, _Values] = {}

    def take(self, spans: Iterable[TraceSpan]) -> None:
        for span in spans:
            if SOURCE in span.attributes:
                self._take_spend(span)
            elif "mainspring.turn.ending" in span.attributes:
                self._take_turn(span)
            elif span.attributes.get("mainspring.call.is_started"):
                self._take_call(span)
            elif "mainspring.wait.on" in span.attributes:
                on = " ".join(_words(span, "mainspring.wait.on"))
                self._measure("mainspring.wait.duration", {"on": on}, span.duration_s)
            elif "mainspring.approval.decision" in span.attributes:
                labels = _labels(span, "mainspring.approval.decision")
                self._measure("mainspring.approval.duration", labels, span.duration_s)

    def metrics(self) -> list[CountedMetric]:
        """All of them; the ones without a value yet have no series."""
        return [
            CountedMetric(
                name=name,
                kind=spec.kind,
                unit=spec.unit,
                help=spec.help,
                series=tuple(
                    Series(dict(labels), value) for labels, value in self._values.get(name, {}).items()
                ),
            )
            for name, spec in _SPECS.items()
        ]

    def _take_spend(self, span: TraceSpan) -> None:
        labels = _labels(span, *_REQUEST)
        named = {key: value for key, value in labels.items() if key != "gen_ai.operation.name"}
        self._count("mainspring.cost", named, _number(span, COST))
        if not labels:
            return
        error = {"error.type": span.error} if span.error else {}
        self._measure("gen_ai.client.operation.duration", {**labels, **error}, span.duration_s)
        for kind, attribute in _KINDS_OF_TOKENS.items():
            tokens = int(_number(span, attribute))
            if tokens:
                self._count("mainspring.tokens", {**named, "gen_ai.token.type": kind}, tokens)
        for kind in ("input", "output"):
            if tokens := _number(span, _KINDS_OF_TOKENS[kind]):
                self._measure("gen_ai.client.token.usage", {**labels, "gen_ai.token.type": kind}, tokens)

    def _take_turn(self, span: TraceSpan) -> None:
        self._count("mainspring.turns", _labels(span, "mainspring.turn.ending"), 1)
        labels = _labels(span, "gen_ai.operation.name", "gen_ai.agent.name", "error.type")
        self._measure("gen_ai.invoke_agent.duration", labels, span.duration_s)

    def _take_call(self, span: TraceSpan) -> None:
        labels = _labels(span, "gen_ai.operation.name", "gen_ai.tool.name", "error.type")
        self._measure("gen_ai.execute_tool.duration", labels, span.duration_s)

    def _count(self, name: str, labels: Labels, value: float) -> None:
        values, key = self._place(name, labels)
        if key is not None:
            before = values.get(key, 0)
            assert not isinstance(before, Histogram)  # noqa: S101 - a counter is a number
            values[key] = before + value

    def _measure(self, name: str, labels: Labels, value: float) -> None:
        values, key = self._place(name, labels)
        if key is not None:
            bounds = _SPECS[name].bounds
            found = values.setdefault(key, Histogram(bounds=bounds, counts=[0] * (len(bounds) + 1)))
            assert isinstance(found, Histogram)  # noqa: S101 - and the other is none
            found.add(value)

    def _place(
        self, name: str, labels: Labels
    ) -> tuple[
        dict[tuple[tuple[str, str], ...], int | float | Histogram], tuple[tuple[str, str], ...] | None
    ]:
        values, key = self._values.setdefault(name, {}), tuple(sorted(labels.items()))
        return values, key if key in values or len(values) < _MOST_SERIES else None


def gauge(
    name: str, help_: str, values: Iterable[tuple[Labels, int | float]], unit: str = "1"
) -> CountedMetric:
    """How something stands now."""
    series = tuple(Series(dict(labels), value) for labels, value in values)
    return CountedMetric(name=name, kind="gauge", unit=unit, help=help_, series=series)


def _labels(span: TraceSpan, *names: str) -> dict[str, str]:
    return {name: str(span.attributes[name]) for name in names if name in span.attributes}


def _words(span: TraceSpan, name: str) -> tuple[str, ...]:
    value = span.attributes[name]
    return value if isinstance(value, tuple) else (str(value),)


def _number(span: TraceSpan, name: str) -> float:
    value = span.attributes.get(name, 0)
    return value if isinstance(value, int | float) else 0

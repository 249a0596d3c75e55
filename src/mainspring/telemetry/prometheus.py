"""Metrics as the text that Prometheus and its like read: names with underscores, units in them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mainspring.telemetry.metrics import CountedMetric, Histogram, Labels, Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_UNITS = {"s": "seconds", "USD": "usd"}
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")


def prometheus_text(metrics: Iterable[CountedMetric]) -> str:
    """Every metric that has a value."""
    return "".join(f"{line}\n" for each in metrics if each.series for line in _lines(each))


def _lines(metric: CountedMetric) -> Iterable[str]:
    name = _NO_NAME.sub("_", metric.name)
    if (unit := _UNITS.get(metric.unit, "")) and not name.endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    if metric.kind == "counter":
        name = f"{name}_total"
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for series in metric.series:
        yield from _series(name, series)


def _series(name: str, series: Series) -> Iterable[str]:
    if not isinstance(series.value, Histogram):
        yield f"{name}{_written(series.labels)} {_number(series.value)}"
        return
    so_far = 0
    for bound, count in zip(series.value.bounds, series.value.counts, strict=False):
        so_far += count
        yield f"{name}_bucket{_written({**series.labels, 'le': _number(bound)})} {so_far}"
    yield f"{name}_bucket{_written({**series.labels, 'le': '+Inf'})} {series.value.count}"
    yield f"{name}_sum{_written(series.labels)} {_number(series.value.sum)}"
    yield f"{name}_count{_written(series.labels)} {series.value.count}"


def _written(labels: Labels) -> str:
    pairs = ",".join(f'{_NO_NAME.sub("_", name)}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))

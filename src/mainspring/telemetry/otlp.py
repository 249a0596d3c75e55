"""Spans and metrics as OTLP's JSON: ids as hexadecimal digits, 64-bit numbers as text, enums as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mainspring import __version__
from mainspring.telemetry.metrics import CountedMetric, Histogram, Series
from mainspring.telemetry.spans import TraceSpan, Value, span_id, trace_id

_INTERNAL, _CLIENT = 1, 3
_ERROR = 2
_CUMULATIVE = 2
_SCOPE = {"name": "mainspring", "version": __version__}


def trace_request(spans: Iterable[TraceSpan]) -> bytes:
    """The body of a request to `/v1/traces`."""
    found = [_span(each) for each in spans]
    return _encoded({"resourceSpans": [_resource({"scopeSpans": [{"scope": _SCOPE, "spans": found}]})]})


def metric_request(metrics: Iterable[CountedMetric], start_us: int, now_us: int) -> bytes:
    """The body of a request to `/v1/metrics`; what is counted was counted since `start_us`."""
    found = [_metric(each, start_us, now_us) for each in metrics if each.series]
    return _encoded({"resourceMetrics": [_resource({"scopeMetrics": [{"scope": _SCOPE, "metrics": found}]})]})


def attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in values.items()]


def _resource(what: dict[str, Any]) -> dict[str, Any]:
    named: dict[str, Value] = {"service.name": "mainspring", "service.version": __version__}
    return {"resource": {"attributes": attributes(named)}, **what}


def _span(span: TraceSpan) -> dict[str, Any]:
    found: dict[str, Any] = {
        "traceId": trace_id(span.session),
        "spanId": span_id(span.session, span.key),
        "name": span.name,
        "kind": _CLIENT if span.is_client else _INTERNAL,
        "startTimeUnixNano": _nano(span.start_us),
        "endTimeUnixNano": _nano(span.end_us),
        "attributes": attributes(span.attributes),
    }
    if span.parent:
        found["parentSpanId"] = span_id(span.session, span.parent)
    if span.events:
        found["events"] = [
            {
                "timeUnixNano": _nano(each.time_us),
                "name": each.name,
                "attributes": attributes(each.attributes),
            }
            for each in span.events
        ]
    if span.links:
        found["links"] = [
            {
                "traceId": trace_id(each.session),
                "spanId": span_id(each.session, each.key),
                "attributes": attributes(
                    {"mainspring.link": each.relation, "mainspring.session": each.session}
                ),
            }
            for each in span.links
        ]
    if span.error:
        found["status"] = {"code": _ERROR, "message": span.error}
    return found


def _metric(metric: CountedMetric, start_us: int, now_us: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": metric.name, "description": metric.help, "unit": metric.unit}
    points = [_point(metric, each, start_us, now_us) for each in metric.series]
    match metric.kind:
        case "gauge":
            found["gauge"] = {"dataPoints": points}
        case "counter":
            found["sum"] = {
                "aggregationTemporality": _CUMULATIVE,
                "isMonotonic": True,
                "dataPoints": points,
            }
        case "histogram":
            found["histogram"] = {"aggregationTemporality": _CUMULATIVE, "dataPoints": points}
    return found


def _point(metric: CountedMetric, series: Series, start_us: int, now_us: int) -> dict[str, Any]:
    point: dict[str, Any] = {"attributes": attributes(series.labels), "timeUnixNano": _nano(now_us)}
    if metric.kind != "gauge":
        point["startTimeUnixNano"] = _nano(start_us)
    if isinstance(series.value, Histogram):
        return {
            **point,
            "count": str(series.value.count),
            "sum": series.value.sum,
            "bucketCounts": [str(count) for count in series.value.counts],
            "explicitBounds": list(series.value.bounds),
        }
    if isinstance(series.value, int):
        return {**point, "asInt": str(series.value)}
    return {**point, "asDouble": series.value}


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case tuple():
            return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}


def _nano(us: int) -> str:
    return str(us * 1000)


def _encoded(request: dict[str, Any]) -> bytes:
    return msgspec.json.encode(request)

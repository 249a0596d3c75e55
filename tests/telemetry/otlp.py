"""What a collector reads out of OTLP's JSON: the published messages, parsed strictly."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from importlib import import_module
from typing import Any

_json_format = import_module("google.protobuf.json_format")
_COLLECTOR = "opentelemetry.proto.collector"


def parsed_traces(body: bytes) -> list[Any]:
    """The spans of a request to `/v1/traces`. OTLP writes ids as hexadecimal digits, where the mapping of
    protobuf has base64."""
    request = import_module(f"{_COLLECTOR}.trace.v1.trace_service_pb2").ExportTraceServiceRequest()
    _json_format.Parse(json.dumps(_with_base64(json.loads(body))), request)
    return [
        span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans
    ]


def parsed_metrics(body: bytes) -> dict[str, Any]:
    """The metrics of a request to `/v1/metrics`, by name."""
    request = import_module(f"{_COLLECTOR}.metrics.v1.metrics_service_pb2").ExportMetricsServiceRequest()
    _json_format.Parse(body.decode(), request)
    scopes = [scope for resource in request.resource_metrics for scope in resource.scope_metrics]
    return {metric.name: metric for scope in scopes for metric in scope.metrics}


def values(attributes: Iterable[Any]) -> dict[str, Any]:
    """Attributes of a parsed message."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def _with_base64(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(each)).decode() if key in ids else _with_base64(each)
        for key, each in value.items()
    }

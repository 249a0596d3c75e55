"""Metrics are counted from spans, and read by the parsers that read them elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from mainspring.events import (
    CallEnded,
    CallStarted,
    OnTime,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    TurnStarted,
    WaitEnded,
    WaitStarted,
)
from mainspring.telemetry.metrics import SpanMetrics, gauge
from mainspring.telemetry.otlp import metric_request
from mainspring.telemetry.prometheus import prometheus_text
from tests.telemetry.otlp import parsed_metrics, values
from tests.telemetry.test_spans import recorded, spans_of, started, step


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What a scraper reads."""
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in families(text)
        for each in family.samples
    }


def families(text: str) -> Iterator[Any]:
    return import_module("prometheus_client.parser").text_string_to_metric_families(text)


def counted() -> SpanMetrics:
    metrics = SpanMetrics()
    metrics.take(
        spans_of(
            recorded(
                started(),
                TurnStarted(turn=1),
                *step("step:1"),
                CallStarted(call="c1", tool="shell"),
                CallEnded(call="c1", outcome="error"),
                SpendReserved(spend="call:c2", source="call"),
                SpendSettled(spend="call:c2", usd=0.5),
                *step("step:2"),
                SpendReserved(spend="step:3", source="step", model="openai/gpt-5"),
                SpendSettled(spend="step:3", is_failed=True),
                TurnEnded(turn=1, ending="budget"),
                WaitStarted(wait="w", conditions=(OnTime(at_us=1),)),
                WaitEnded(wait="w", cause="met"),
            )
        )
    )
    return metrics


def test_prometheus_reads_what_was_counted() -> None:
    read = samples(prometheus_text(counted().metrics()))
    model = {("gen_ai_provider_name", "openai"), ("gen_ai_request_model", "gpt-5")}
    chat = {*model, ("gen_ai_operation_name", "chat")}

    def value(name: str, *labels: tuple[str, str]) -> float:
        return read[name, frozenset(labels)]

    assert value("mainspring_cost_usd_total", *model) == 0.5
    assert value("mainspring_cost_usd_total") == 0.5  # a call with a price of its own
    assert value("mainspring_tokens_total", *model, ("gen_ai_token_type", "cached")) == 120
    assert value("mainspring_turns_total", ("mainspring_turn_ending", "budget")) == 1
    seconds = "gen_ai_client_operation_duration_seconds"
    assert value(f"{seconds}_count", *chat) == 2
    assert value(f"{seconds}_count", *chat, ("error_type", "failed")) == 1
    assert value(f"{seconds}_bucket", *chat, ("le", "0.64")) == 0
    assert value(f"{seconds}_bucket", *chat, ("le", "1.28")) == 2
    assert value(f"{seconds}_sum", *chat) == 2
    tool = {("gen_ai_operation_name", "execute_tool"), ("gen_ai_tool_name", "shell"), ("error_type", "error")}
    assert value("gen_ai_execute_tool_duration_seconds_count", *tool) == 1
    assert value("mainspring_wait_duration_seconds_count", ("on", "time")) == 1


def test_collectors_read_the_same() -> None:
    body = metric_request([*counted().metrics(), gauge("mainspring.x", "How many.", [({}, 3)])], 1, 2)
    read = parsed_metrics(body)
    cost = read["mainspring.cost"].sum
    assert (cost.is_monotonic, cost.aggregation_temporality) == (True, 2)
    assert sum(point.as_double for point in cost.data_points) == 1.0
    tokens = {
        values(point.attributes)["gen_ai.token.type"]: point.as_int
        for point in read["mainspring.tokens"].sum.data_points
    }
    assert tokens == {"input": 200, "cached": 120, "output": 14, "reasoning": 6}
    (usage,) = [
        point
        for point in read["gen_ai.client.token.usage"].histogram.data_points
        if values(point.attributes)["gen_ai.token.type"] == "input"
    ]
    assert (usage.count, usage.sum, len(usage.bucket_counts)) == (2, 200, len(usage.explicit_bounds) + 1)
    assert [
        bound for bound, count in zip(usage.explicit_bounds, usage.bucket_counts, strict=False) if count
    ] == [256]
    (point,) = read["mainspring.x"].gauge.data_points
    assert (point.as_int, point.time_unix_nano) == (3, 2000)


def test_labels_come_back_as_they_were_and_are_never_too_many() -> None:
    odd = 'a "quoted"\\ line\nand another'
    read = samples(prometheus_text([gauge("mainspring.x", "How many.", [({"state": odd}, 1)])]))
    assert read == {("mainspring_x", frozenset({("state", odd)})): 1}
    metrics = SpanMetrics()
    calls = [
        event
        for number in range(1500)
        for event in (CallStarted(call="c", tool=f"tool{number}"), CallEnded(call="c", outcome="ok"))
    ]
    metrics.take(spans_of(recorded(started(), *calls)))
    (tools,) = [each for each in metrics.metrics() if each.name == "gen_ai.execute_tool.duration"]
    assert len(tools.series) == 1000

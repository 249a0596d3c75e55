"""Spans are a projection of a journal: the same for ever, read by what collectors are made of, and silent about
texts unless these are asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import msgspec
import pytest

from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    ChildEnded,
    ChildStarted,
    Crashed,
    Event,
    ModelChosen,
    OnFile,
    OnTime,
    Recorded,
    RequestFailed,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    Text,
    TurnEnded,
    TurnStarted,
    Usage,
    UserSaid,
    WaitEnded,
    WaitStarted,
    decode,
)
from mainspring.telemetry.fold import FOLDED, SpanFold, SpanState
from mainspring.telemetry.otlp import trace_request
from mainspring.telemetry.spans import ROOT, SpanLink, TraceSpan, child_key, model_names, span_id, trace_id
from mainspring.testing import Stage, tool_call
from tests.telemetry.otlp import parsed_traces, values

GOLDEN = Path(__file__).parent.parent / "journals" / "v1"
SECOND_US = 1_000_000


def recorded(*events: Event) -> list[Recorded]:
    """One event a second."""
    numbers = count(1)
    return [Recorded(number, number * SECOND_US, event) for event, number in zip(events, numbers)]  # noqa: B905


def spans_of(
    events: Sequence[Recorded], session: str = "one", *, has_content: bool = False
) -> list[TraceSpan]:
    fold = SpanFold(session, has_content=has_content)
    return [span for each in events for span in fold.take(each)]


def named(spans: Sequence[TraceSpan], name: str) -> TraceSpan:
    (found,) = [span for span in spans if span.name == name]
    return found


def started(session: str = "one", **more: object) -> SessionStarted:
    return msgspec.convert({"session": session, "workspace": "/work", "version": "1", **more}, SessionStarted)


def step(name: str, *, model: str = "openai/gpt-5") -> tuple[Event, ...]:
    usage = Usage(input_tokens=100, cached_tokens=60, output_tokens=7, reasoning_tokens=3)
    return (
        SpendReserved(spend=name, source="step", model=model, usd=1.0),
        SpendSettled(spend=name, usage=usage, usd=0.25),
    )


def test_a_turn_is_a_tree_of_steps_requests_and_calls(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool_call("read", path="nosuch"), "It is not there.")
    stage.run("Read it", tools=["read"])
    spans = parsed_traces(trace_request(spans_of(stage.journal(), stage.session)))
    by_id = {span.span_id: span for span in spans}
    tree = [(span.name, by_id[span.parent_span_id].name if span.parent_span_id else "") for span in spans]
    assert tree == [
        ("session", ""),
        ("chat scripted", "step"),
        ("execute_tool read", "step"),
        ("step", "invoke_agent mainspring"),
        ("chat scripted", "step"),
        ("step", "invoke_agent mainspring"),
        ("invoke_agent mainspring", "session"),
    ]
    assert len(by_id) == len(spans)
    assert {span.trace_id.hex() for span in spans} == {trace_id(stage.session)}
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)
    tool = next(span for span in spans if span.name == "execute_tool read")
    assert tool.status.code == 2
    told = values(tool.attributes)
    assert (told["error.type"], told["gen_ai.tool.name"]) == ("error", "read")
    assert told["gen_ai.conversation.id"] == stage.session
    turn = values(spans[-1].attributes)
    assert (turn["mainspring.turn.ending"], turn["mainspring.turn.steps"]) == ("done", 2)


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.jsonl")), ids=lambda file: file.stem)
def test_every_journal_ever_written_gives_spans_that_collectors_read(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    events = [
        Recorded(line["seq"], line["time_us"], decode(line["kind"], json.dumps(line["body"]).encode()))
        for line in lines
        if "body" in line
    ]
    assert events
    spans = spans_of(events, file.stem)
    read = parsed_traces(trace_request(spans))
    assert len(read) == len(spans) == len({span.span_id for span in read})
    kinds = [each for each in events if each.kind in FOLDED]
    assert spans_of(kinds, file.stem) == spans  # nothing depends on events that are not read


def test_a_fold_that_is_kept_and_taken_up_at_any_event_gives_the_same_spans() -> None:
    events = recorded(
        started(),
        ModelChosen(model="openai/gpt-5"),
        UserSaid(text="Go"),
        TurnStarted(turn=1),
        *step("step:1"),
        AssistantSaid(step=1, parts=(CallAsked(call="c1", name="shell"),), stop="calls"),
        ApprovalAsked(call="c1", tool="shell", arguments="{}", arguments_sha256="x"),
        ApprovalGiven(call="c1", arguments_sha256="x", decision="allow"),
        CallStarted(call="c1", tool="shell"),
        SessionResumed(version="1", host="h", pid=7),
        CallEnded(call="c1", outcome="unknown"),
        *step("step:2"),
        TurnEnded(turn=1, ending="done"),
    )
    whole = spans_of(events)
    for at in range(len(events)):
        first = SpanFold("one")
        spans = [span for each in events[:at] for span in first.take(each)]
        kept = msgspec.json.decode(msgspec.json.encode(first.state), type=SpanState)
        second = SpanFold("one", kept)
        assert spans + [span for each in events[at:] for span in second.take(each)] == whole
    assert named(whole, "approval shell").duration_s == 1


def test_cost_and_tokens_stand_in_the_request_the_cached_ones_too() -> None:
    spans = spans_of(
        recorded(started(), TurnStarted(turn=1), *step("step:1"), TurnEnded(turn=1, ending="done"))
    )
    request = named(spans, "chat gpt-5")
    assert request.is_client
    assert request.attributes["mainspring.cost.usd"] == 0.25
    assert request.attributes["gen_ai.usage.input_tokens"] == 100
    assert request.attributes["gen_ai.usage.cache_read.input_tokens"] == 60
    assert request.attributes["gen_ai.usage.reasoning.output_tokens"] == 3
    assert request.attributes["gen_ai.provider.name"] == "openai"


def test_a_request_that_failed_says_how_and_one_that_was_tried_again_is_none() -> None:
    reserved = SpendReserved(spend="step:1", source="step", model="openai/gpt-5")
    failed = RequestFailed(step=1, attempt=1, error="rate_limit", message="slow down", retry_in_s=1.0)
    lost = spans_of(recorded(started(), reserved, failed, SpendSettled(spend="step:1", is_failed=True)))
    healed = spans_of(recorded(started(), reserved, failed, SpendSettled(spend="step:1")))
    assert (
        named(lost, "chat gpt-5").error == named(lost, "chat gpt-5").attributes["error.type"] == "rate_limit"
    )
    assert named(healed, "chat gpt-5").error == ""
    assert "error.type" not in named(healed, "chat gpt-5").attributes
    for spans in (lost, healed):
        assert [each.name for each in named(spans, "chat gpt-5").events] == ["request failed"]
        assert "slow down" not in str(spans)


def test_what_a_killed_process_had_asked_is_lost_and_the_next_turn_names_the_resume() -> None:
    spans = spans_of(
        recorded(
            started(),
            TurnStarted(turn=1),
            SpendReserved(spend="step:1", source="step", model="m"),
            SessionResumed(version="1", host="desk", pid=7),
            *step("step:1"),
            Crashed(traceback="secret path"),
            TurnEnded(turn=1, ending="failed"),
            TurnStarted(turn=2),
            TurnEnded(turn=2, ending="done"),
        )
    )
    assert [span.error for span in spans if span.name.startswith("chat")] == ["lost", ""]
    first, second = (span for span in spans if span.name.startswith("invoke_agent"))
    assert [each.name for each in first.events] == ["resumed", "crashed"]
    assert (first.error, first.links) == ("failed", ())
    resume = named(spans, "resume")
    assert resume.attributes["host.name"] == "desk"
    assert second.links == (SpanLink("one", resume.key, "resume"),)
    assert "secret path" not in str(spans)


def test_a_fork_has_spans_of_its_own_and_names_its_parent() -> None:
    parent = [started(), TurnStarted(turn=1), *step("step:1"), TurnEnded(turn=1, ending="done")]
    own = [TurnStarted(turn=2), *step("step:2"), TurnEnded(turn=2, ending="done")]
    begun = started("two", parent="one", parent_seq=len(parent))
    spans = spans_of(recorded(begun, *parent[1:], *own), "two")
    assert [span.name for span in spans] == ["session", "chat gpt-5", "step", "invoke_agent mainspring"]
    assert spans[0].links == (SpanLink("one", ROOT, "fork"),)
    assert spans[0].start_us == (len(parent) + 1) * SECOND_US
    others = {span_id("one", span.key) for span in spans_of(recorded(*parent))}
    assert not others & {span_id("two", span.key) for span in spans}


def test_an_agent_and_the_session_that_asked_name_each_other() -> None:
    above = spans_of(
        recorded(
            started(),
            TurnStarted(turn=1),
            CallStarted(call="c1", tool="delegate"),
            ChildStarted(child="kid", task="secret task", agent="scout", call="c1"),
            ChildEnded(child="kid", state="failed", cost_usd=0.5, text="secret answer"),
            CallEnded(call="c1", outcome="error"),
        )
    )
    below = spans_of(recorded(started("kid", parent="one", agent="scout"), TurnStarted(turn=1)), "kid")
    child = named(above, "invoke_agent scout")
    assert (child.key, child.parent) == (child_key("kid"), named(above, "execute_tool delegate").key)
    assert child.links == (SpanLink("kid", ROOT, "agent"),)
    assert below[0].links == (SpanLink("one", child_key("kid"), "agent"),)
    assert (child.error, child.attributes["mainspring.cost.usd"]) == ("failed", 0.5)
    assert "secret" not in str(above)


def test_waits_and_calls_that_never_began_have_spans() -> None:
    waits = (OnTime(at_us=5), OnFile(path="/secret", until="exists"), OnTime(at_us=6))
    spans = spans_of(
        recorded(
            started(),
            TurnStarted(turn=1),
            *step("step:1"),
            AssistantSaid(step=1, parts=(CallAsked(call="c1", name="rm"),), stop="calls"),
            CallEnded(call="c1", outcome="refused", output="no"),
            TurnEnded(turn=1, ending="waiting"),
            WaitStarted(wait="w", conditions=waits, reason="secret"),
            WaitEnded(wait="w", cause="met"),
        )
    )
    assert named(spans, "wait").attributes["mainspring.wait.on"] == ("time", "file")
    assert named(spans, "wait").parent == ROOT
    refused = named(spans, "execute_tool rm")
    assert (refused.error, refused.duration_s, refused.attributes["mainspring.call.is_started"]) == (
        "refused",
        0,
        False,
    )
    assert named(spans, "step").end_us == refused.end_us
    assert "secret" not in str(spans)


def test_texts_are_in_spans_only_when_they_are_asked_for() -> None:
    call = CallAsked(call="c1", name="read", arguments='{"path": "ARGUMENT"}')
    events = recorded(
        started(),
        UserSaid(text="QUESTION"),
        TurnStarted(turn=1),
        *step("step:1"),
        AssistantSaid(step=1, parts=(Text(text="ANSWER"), call), stop="calls"),
        CallStarted(call="c1", tool="read"),
        CallEnded(call="c1", outcome="ok", output="RESULT" + "x" * 100_000),
        TurnEnded(turn=1, ending="done", detail="DETAIL"),
    )
    words = ("QUESTION", "ANSWER", "ARGUMENT", "RESULT")
    without, with_texts = (str(spans_of(events, has_content=has)) for has in (False, True))
    assert not [word for word in (*words, "DETAIL") if word in without]
    assert all(word in with_texts for word in words)
    assert len(with_texts) < 40_000
    called = named(spans_of(events, has_content=True), "execute_tool read").attributes
    assert called["gen_ai.tool.call.arguments"] == call.arguments
    asked = named(spans_of(events, has_content=True), "invoke_agent mainspring").attributes
    assert json.loads(str(asked["gen_ai.input.messages"]))[0]["parts"][0]["content"] == "QUESTION"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("gpt-5", ("openai", "gpt-5", "", 0)),
        ("gemini/gemini-3-pro", ("gcp.gemini", "gemini-3-pro", "", 0)),
        ("xai/grok-5", ("x_ai", "grok-5", "", 0)),
        (
            "openai-compatible@https://user:word@models.example:8443/v1?key=word#qwen/q3",
            ("openai-compatible", "qwen/q3", "models.example", 8443),
        ),
        ("openai-compatible@http://[bad/v1#m", ("openai-compatible", "m", "", 0)),
        ("scripted@/home/me/secret.json", ("scripted", "scripted", "", 0)),
        ("plugged/large", ("plugged", "large", "", 0)),
        ("", ("unknown", "unknown", "", 0)),
    ],
)
def test_a_model_is_named_without_what_its_address_may_hide(
    spec: str, told: tuple[str, str, str, int]
) -> None:
    names = model_names(spec)
    assert (names.provider, names.model, names.address, names.port) == told


def test_ids_have_the_lengths_of_the_standard_and_differ() -> None:
    ids = {span_id(session, key) for session in ("one", "two") for key in (ROOT, "1", "2")}
    assert {len(each) for each in ids} == {16}
    assert len(ids) == 6
    assert len(trace_id("one")) == 32
    assert trace_id("one") != trace_id("two")

"""Claude thinks in all of an open loop of calls or in none of it, whatever became of effort, money and model."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.events import Cap, Limits, Recorded, Usage
from mainspring.models import Request
from mainspring.models.scripted import Fault, ScriptedCall, ScriptedReply
from mainspring.testing.strictness import problem
from tests.context.test_wire_properties import TOOLS, history_of, thoughtful
from tests.models.every_wire import DIALECTS, Wired, build

BUDGETED = "claude-sonnet-4-5"
ADAPTIVE = "claude-opus-5"
ONE_STEP = Limits(max_steps=1)
LOOK = (ScriptedCall("read", {"path": "a.txt"}),)
PLAIN, THOUGHT = (
    ScriptedReply(calls=LOOK),
    ScriptedReply(thinking="Let me see.", calls=LOOK, usage=Usage(input_tokens=3000, output_tokens=100)),
)
MISSING = (
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is"
    " enabled, a final `assistant` message must start with a thinking block."
)
UNWANTED = (
    "messages.1.content.0.type: When `thinking` is disabled, an `assistant` message in the final position cannot"
    " contain `thinking`."
)


@pytest.mark.parametrize("model", [BUDGETED, ADAPTIVE, "claude-3-5-haiku-latest"])
@given(
    recorded=thoughtful(),
    effort=st.sampled_from([None, "low", "medium", "high", "max"]),
    limit=st.none() | st.integers(64, 70_000),
)
@settings(max_examples=100)
def test_thinking_stands_where_it_may(
    model: str, recorded: list[Recorded], effort: Any, limit: int | None
) -> None:
    wire = build("anthropic", model=model)
    messages = history_of(recorded, wire)._messages
    body = wire.body(Request("s", TOOLS, messages, max_output_tokens=limit, effort=effort))
    assert problem(DIALECTS["anthropic"], body) == ""


def thinking_of(stage: Wired) -> list[str]:
    return [seen.json().get("thinking", {}).get("type", "") for seen in stage.seen]


CASES: dict[str, tuple[ScriptedReply, dict[str, Any], dict[str, Any]]] = {
    "fail-over from another wire": (PLAIN, {"wire": "chat"}, {"effort": "high"}),
    "effort raised": (PLAIN, {"wire": "anthropic", "name": BUDGETED}, {"effort": "high"}),
    "the cap leaves no room": (
        THOUGHT,
        {"wire": "anthropic", "name": BUDGETED, "effort": "high"},
        {"effort": "high", "limits": Limits(session=Cap(tokens=7_200))},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_turn_goes_on_with_thinking_or_without(case: str, tmp_path: Path) -> None:
    reply, before, after = CASES[case]
    stage = Wired(tmp_path, reply, ScriptedReply("so"), ScriptedReply(thinking="Hm.", text="again"))
    (stage.workspace / "a.txt").write_text("what it says")
    assert stage.run(text="go", limits=ONE_STEP, **before)[-1].ending == "limit"
    assert stage.run("anthropic", "go on", name=BUDGETED, **after)[-1].ending == "done"
    assert thinking_of(stage) == [""], "not while the loop is open"
    assert stage.run("anthropic", "more", name=BUDGETED, effort="high")[-1].ending == "done"
    assert thinking_of(stage) == ["enabled"], "and again after it"


@pytest.mark.parametrize("model", [BUDGETED, ADAPTIVE])
@pytest.mark.parametrize("said", [MISSING, UNWANTED])
def test_both_refusals_are_healed(said: str, model: str, tmp_path: Path) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    refused = ScriptedReply("so", fault=Fault(kind="status", status=400, body=error))
    stage = Wired(tmp_path, THOUGHT, refused)
    (stage.workspace / "a.txt").write_text("what it says")
    assert stage.run("anthropic", "go", name=model, effort="high")[-1].ending == "done"
    assert [seen.fault for seen in stage.seen] == ["", "status", ""]
    assert thinking_of(stage)[1:] == [thinking_of(stage)[0], ""]
    assert '"signature"' not in stage.seen[-1].body.decode()

"""Whatever a model calls its tools, every later request is one that its provider takes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.events import AssistantSaid, CallAsked, CallEnded, CallStarted, ToolSpec, tool_of
from mainspring.models import AssistantMessage, Message, Request, ResultsMessage, ToolResult, UserMessage
from mainspring.models.rescue import rescue
from mainspring.models.scripted import Script, ScriptedCall, ScriptedReply
from mainspring.models.wires.messages import wire_name
from mainspring.testing.strictness import problem
from tests.models.every_wire import DIALECTS, WIRES, Wired, ask, build

ODD = [
    "functions.read",
    "",
    " ",
    "a b",
    "x" * 200,
    "größe",
    "9lives",
    "-",
    "multi_tool_use.parallel",
    "\u2028",
    "a.b",
]
TOOL = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})


def history(*names: str) -> list[Message]:
    calls = tuple(CallAsked(call=f"c0000100{n}", name=name, arguments="{}") for n, name in enumerate(names))
    results = tuple(ToolResult(call.call, call.name, "no such tool", is_error=True) for call in calls)
    return [UserMessage("hi"), AssistantMessage(calls), ResultsMessage(results)]


@pytest.mark.parametrize("wire", WIRES)
@given(names=st.lists(st.text(max_size=300) | st.sampled_from(ODD), min_size=1, max_size=4))
@settings(max_examples=100)
def test_any_name_goes_back_in_a_form_that_the_provider_takes(wire: str, names: list[str]) -> None:
    model = build(wire)
    tools = (TOOL, ToolSpec(name=names[0], description="", parameters={"type": "object"}))
    body = model.body(Request("s", tools, [model.encode(message) for message in history(*names)]))
    assert problem(DIALECTS[wire], body) == ""


@given(names=st.lists(st.text(max_size=100) | st.sampled_from(ODD), unique=True, max_size=20))
def test_two_names_stay_two(names: list[str]) -> None:
    meant = {tool_of(name) for name in names}
    assert len({wire_name(name) for name in meant}) == len(meant)


@pytest.mark.parametrize("name", ["read ", "\n read", " functions.read\n", "default_api:read "])
def test_blanks_around_a_name_are_left_out(name: str) -> None:
    assert (tool_of(name), wire_name(name)) == ("read", "read")


@pytest.mark.parametrize("wire", WIRES)
def test_the_server_of_the_tests_refuses_what_a_provider_refuses(wire: str) -> None:
    model = build(wire)
    good = model.body(Request("s", (TOOL,), [model.encode(message) for message in history("read")]))
    assert problem(DIALECTS[wire], good) == ""
    assert "name" in problem(DIALECTS[wire], good.replace(b'"name":"read"', b'"name":"a b"'))


@pytest.mark.parametrize("wire", WIRES)
def test_odd_names_are_accepted_over_http(wire: str) -> None:
    heard = ask(
        wire, Script((ScriptedReply("a"), ScriptedReply("b"))), history(*ODD[:6]), system="s", tools=(TOOL,)
    )
    assert heard[0].seen.reply == 1


def test_a_call_written_as_text_may_name_its_namespace() -> None:
    (call,) = rescue('{"name": "functions.read", "arguments": {"path": "a"}}', {"read"}).calls
    assert call.name == "functions.read"


@pytest.mark.parametrize("wire", WIRES)
def test_a_session_goes_on_after_odd_names_also_resumed_and_on_another_wire(
    wire: str, tmp_path: Path
) -> None:
    packed = {"tool_uses": [{"recipient_name": "functions.read", "parameters": {"path": "a.txt"}}]}
    calls = (
        ScriptedCall("functions.read", {"path": "a.txt"}),
        ScriptedCall("multi_tool_use.parallel", packed),
        ScriptedCall("y" * 200),
    )
    stage = Wired(tmp_path, ScriptedReply(calls=calls), ScriptedReply("so"), ScriptedReply("again"))
    (stage.workspace / "a.txt").write_text("what it says")
    events = stage.run(wire, "go")
    (said,) = [each for each in events if isinstance(each, AssistantSaid) and each.calls]
    assert [call.name for call in said.calls] == [call.name for call in calls], (
        "the journal keeps what was said"
    )
    assert [each.tool for each in events if isinstance(each, CallStarted)] == ["read"]
    read, packed_end, unknown = sorted(
        (each for each in events if isinstance(each, CallEnded)), key=lambda e: e.call
    )
    assert "what it says" in read.output
    assert 'read {"path":"a.txt"}' in packed_end.output
    assert "There is no tool named" in unknown.output
    for other in WIRES:
        assert stage.run(other, "and?")[-1].ending == "done"

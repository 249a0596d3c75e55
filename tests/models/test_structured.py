"""How each wire asks for a structured reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.events import CallAsked, Text, ToolSpec
from mainspring.models import UserMessage
from mainspring.models.providers import ChatQuirks
from mainspring.models.scripted import Script, ScriptedCall, ScriptedReply
from mainspring.models.structured import ANSWER, has_maps, is_strict, without_limits
from tests.models.every_wire import WIRES, ask

GOOD = '{"name": "Ulm", "people": 3}'
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}


TOOL = ToolSpec(name="look", description="Looks.", parameters={"type": "object", "properties": {}})
ASKED = [UserMessage(text="which city?")]


def test_each_wire_has_its_own_field_for_the_schema() -> None:
    def body(wire: str, **options: Any) -> Any:
        (heard,) = ask(
            wire,
            Script(replies=(ScriptedReply(text=GOOD),)),
            ASKED,
            system="",
            tools=(TOOL,),
            schema=SCHEMA,
            options=options,
        )
        assert heard.parts == (Text(text=GOOD),)
        return heard.body

    described = {"name": "reply", "schema": SCHEMA, "strict": True}
    assert body("chat")["response_format"] == {"type": "json_schema", "json_schema": described}
    assert body("responses")["text"] == {"format": {"type": "json_schema", **described}}
    generation = body("gemini")["generationConfig"]
    assert (generation["responseMimeType"], generation["responseJsonSchema"]) == ("application/json", SCHEMA)
    assert body("anthropic")["output_config"]["format"] == {
        "type": "json_schema",
        "schema": without_limits(SCHEMA),
    }


@pytest.mark.parametrize(
    ("wire", "options", "choice"),
    [
        ("chat", {"quirks": ChatQuirks(has_schema=False)}, ("tool_choice", "required")),
        ("anthropic", {"model": "claude-3-5-haiku-latest"}, ("tool_choice", {"type": "any"})),
        ("gemini", {"model": "gemini-2.5-pro"}, ("toolConfig", {"functionCallingConfig": {"mode": "ANY"}})),
    ],
)
def test_elsewhere_the_answer_is_a_tool_that_must_be_called(
    wire: str, options: Any, choice: tuple[str, Any]
) -> None:
    said = ScriptedReply(text="Here it is:", calls=(ScriptedCall(name=ANSWER, arguments=json.loads(GOOD)),))
    (heard,) = ask(
        wire, Script(replies=(said,)), ASKED, system="", tools=(TOOL,), schema=SCHEMA, options=options
    )
    (part,) = heard.parts
    assert isinstance(part, Text)
    assert (json.loads(part.text), heard.finished.stop) == (json.loads(GOOD), "end")
    assert heard.body[choice[0]] == choice[1]
    assert ANSWER in json.dumps(heard.body["tools"])


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_of_another_tool_stays_a_call(wire: str) -> None:
    said = ScriptedReply(text="I look.", calls=(ScriptedCall(name="look", arguments={}),))
    (heard,) = ask(wire, Script(replies=(said,)), ASKED, system="", tools=(TOOL,), schema=SCHEMA)
    assert heard.finished.stop == "calls"
    assert [part.name for part in heard.parts if isinstance(part, CallAsked)] == ["look"]


def test_a_schema_is_strict_when_every_field_is_required() -> None:
    assert is_strict(SCHEMA)
    assert not is_strict({**SCHEMA, "required": ["name"]})
    assert not is_strict({"type": "object", "properties": {"city": {**SCHEMA, "additionalProperties": True}}})


def test_a_map_goes_to_the_answer_tool_where_objects_are_closed() -> None:
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    schema = {**SCHEMA, "properties": {"counts": counts}, "required": ["counts"]}
    assert has_maps(schema)
    assert not is_strict(schema)
    assert not has_maps(SCHEMA)
    said = ScriptedReply(calls=(ScriptedCall(name=ANSWER, arguments={"counts": {"a": 1}}),))
    (heard,) = ask("anthropic", Script(replies=(said,)), ASKED, system="", tools=(TOOL,), schema=schema)
    (part,) = heard.parts
    assert isinstance(part, Text)
    assert json.loads(part.text) == {"counts": {"a": 1}}
    assert "format" not in heard.body.get("output_config", {})

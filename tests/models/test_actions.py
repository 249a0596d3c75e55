"""A model that was never taught to make calls: what it is told, what it may write, and what that means."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.events import CallAsked, CallDelta, Text, ToolSpec
from mainspring.models import AssistantMessage, ResultsMessage, ToolResult, UserMessage
from mainspring.models.actions import Actions, described, encode, schema

READ = ToolSpec(
    name="read",
    description="Reads a file.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "which", "pattern": "^[a-z]+$"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
            "encoding": {"type": "string"},
        },
        "required": ["path", "lines"],
        "additionalProperties": {"type": "string"},
        "$defs": {"line": {"type": "integer"}},
    },
)


def read(text: str, size: int) -> tuple[str, list[CallDelta], bool]:
    actions, shown = Actions(), ""
    for at in range(0, len(text), size):
        shown += "".join(delta.text for delta in actions.feed(text[at : at + size]))
    rest = actions.end()
    shown += "".join(item.text for item in rest if not isinstance(item, CallDelta))
    return shown, [item for item in rest if isinstance(item, CallDelta)], actions.has_call


def test_a_reply_is_an_answer_or_a_call_of_a_tool_and_nothing_else() -> None:
    read_call, answer = schema([READ])["anyOf"]
    assert read_call["properties"]["action"] == {"const": "read"}
    assert read_call["properties"]["arguments"] == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {}}},
        "required": ["path", "lines"],
        "additionalProperties": False,
    }
    assert answer["required"] == ["action", "text"]
    assert not answer["additionalProperties"]


def test_what_may_be_left_out_is_not_offered_unless_it_is_all_there_is() -> None:
    tool = ToolSpec(name="list", description="", parameters={"properties": {"all": {"type": "boolean"}}})
    (listing, _) = schema([tool])["anyOf"]
    assert listing["properties"]["arguments"]["properties"] == {"all": {"type": "boolean"}}
    assert "encoding" not in str(schema([READ])) + described("", [READ])


def test_the_system_prompt_names_each_tool_with_its_arguments() -> None:
    told = described("Be brief.", [READ])
    assert told.startswith("Be brief.\n\n")
    assert 'read: Reads a file.\narguments: {"path": string (which); "lines": array}' in told


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize("space", ["", " ", "\n  "])
def test_a_call_is_read_whole_however_it_came(size: int, space: str) -> None:
    text = f'{{{space}"action":{space}"read",{space}"arguments":{space}{{"path": "a}}.py"}}{space}}}'
    (call,) = read(text, size)[1]
    assert (call.name, call.arguments) == ("read", '{"path": "a}.py"}')


@given(st.text(), st.integers(1, 9), st.booleans())
def test_an_answer_is_shown_as_it_comes(text: str, size: int, is_ascii: bool) -> None:
    import json

    written = json.dumps({"action": "answer", "text": text}, ensure_ascii=is_ascii)
    shown, calls, _ = read(written, size)
    assert shown == text
    assert not calls


def test_what_was_cut_off_is_a_call_with_half_its_arguments_or_half_an_answer() -> None:
    _, (call,), has_call = read('{"action": "read", "arguments": {"path": "a', 4)
    assert (call.name, call.arguments, has_call) == ("read", '{"path": "a', True)
    assert read('{"action": "answer", "text": "half\\n an', 4)[0] == "half\n an"


@pytest.mark.parametrize("end", ["\n```", "```\n", "\n", ""])
def test_an_answer_in_a_fence_is_an_answer(end: str) -> None:
    written = '```json\n{"action": "answer", "text": "Done."}'
    assert read(written + end, 7) == ("Done.", [], False)


def test_text_that_is_no_action_is_shown_as_it_stands() -> None:
    assert read("Hello.", 2) == ("Hello.", [], False)


def test_history_is_told_in_the_form_that_the_model_writes() -> None:
    call = CallAsked(call="c1", name="read", arguments='{"path":"a"}')
    assert encode(AssistantMessage((Text(text="hm"), call))) == (
        b'{"content":"{\\"action\\": \\"read\\", \\"arguments\\": {\\"path\\":\\"a\\"}}","role":"assistant"}'
    )
    assert b'\\"action\\": \\"answer\\", \\"text\\": \\"done\\"' in encode(
        AssistantMessage((Text(text="done"),))
    )
    result = ToolResult("c1", "read", "x" * 7000, is_error=True)
    told = encode(ResultsMessage((result,)))
    assert told.startswith(b'{"content":"[read failed]\\nxxx')
    assert b"1000 characters left out" in told
    assert encode(UserMessage("go")) == b'{"content":"go","role":"user"}'


def test_files_that_were_written_stand_in_blocks_and_what_cannot_be_read_so_as_it_was() -> None:
    def told(arguments: str) -> str:
        call = CallAsked(call="1", name="write", arguments=arguments)
        return json.loads(encode(AssistantMessage(parts=(call,))))["content"]

    assert told('{"path": "a.py", "content": "x = 1\\n"}') == "### a.py\n```python\nx = 1\n```"
    assert told('{"path": "a.py"}').startswith('{"action": "write"')

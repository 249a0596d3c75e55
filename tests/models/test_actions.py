"""A model that was never taught to make calls: what it is told, what it may write, and what that means."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.events import CallAsked, CallDelta, Text, TextDelta, ToolSpec
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


CALL = '{"action": "read", "arguments": {"path": "a.py"}}'
LOOSE = {
    "a role": f"Assistant: {CALL}",
    "signs between messages": f"<|im_start|>assistant\n{CALL}<|im_end|>",
    "a sign of its end": f"{CALL}</s>",
    "in a sentence": f"Sure! {CALL}",
    "in a sentence without spaces": f"我先读取文件：{CALL}",
    "curly quotes": "{“action”: “read”, “arguments”: {“path”: “a.py”}}",
    "names without quotes": '{action: "read", arguments: {path: "a.py"}}',
    "a comment": '{"action": "read", // look at it\n "arguments": {"path": "a.py"}}',
    "doubled braces": '{{"action": "read", "arguments": {{"path": "a.py"}}}}',
    "other letters": '{"Action": "Read", "Arguments": {"path": "a.py"}}',
    "arguments beside the action": '{"action": "read", "path": "a.py"}',
    "its name as the only field": '{"read": {"path": "a.py"}}',
    "a bracket too few": '{"action": "read", "arguments": {"path": "a.py"}',
    "tags of parameters": "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>",
    "a tag with JSON": '<function=read>{"path": "a.py"}</function>',
    "an invocation": '<invoke name="read"><parameter name="path">a.py</parameter></invoke>',
    "a tag of its own": "I read.\n<read>\n<path>a.py</path>\n</read>",
    "steps": 'Thought: look\nAction: read\nAction Input: {"path": "a.py"}\nObservation: x = 1',
    "Python": 'read(path="a.py")',
    "Python in a fence": '```tool_code\nread(path="a.py")\n```',
    "a mark of calls": '[TOOL_CALLS][{"name": "read", "arguments": {"path": "a.py"}}]',
    "a mark and a name": '[TOOL_CALLS]read[ARGS]{"path": "a.py"}',
    "a mark of programs": '<|python_tag|>{"name": "read", "parameters": {"path": "a.py"}}',
    "marks in other letters": '<｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n{"path": "a.py"}\n```<｜tool▁call▁end｜>',
    "a thought with a call": f'<think>\n{{"action": "shell", "arguments": {{"command": "rm x"}}}}\n</think>\n{CALL}',
    "the end of a thought": f"I think.\n</think>\n\n{CALL}",
}  # fmt: skip


@pytest.mark.parametrize("form", LOOSE)
def test_a_call_in_any_form_that_models_write_is_made(form: str) -> None:
    actions = Actions({"read", "shell", "write"})
    shown = [item for size in LOOSE[form] for item in actions.feed(size)] + actions.end()
    (call,) = [item for item in shown if isinstance(item, CallDelta)]
    assert (call.name, json.loads(call.arguments)) == ("read", {"path": "a.py"})
    assert actions.has_call
    assert not actions.dropped


@pytest.mark.parametrize(
    ("written", "content"),
    [
        ('"""def f():\n    return "x\\n"\n"""', 'def f():\n    return "x\\n"\n'),
        ("`a\nb`", "a\nb"),
        ('"```python\\nx\\n```\\n"', "```python\nx\n```\n"),
        ('"<tool_call>x</tool_call>"', "<tool_call>x</tool_call>"),
    ],
)
@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "<tool_call>\n{}\n</tool_call>"])
def test_a_file_is_written_as_it_was_meant(written: str, content: str, form: str) -> None:
    call = '{"name": "write", "arguments": {"path": "a", "content": ' + written + "}}"
    actions = Actions({"write"})
    actions.feed(form.format(call))
    (made,) = [item for item in actions.end() if isinstance(item, CallDelta)]
    assert json.loads(made.arguments) == {"path": "a", "content": content}


@pytest.mark.parametrize(
    "text",
    [
        '<function=write>\n<parameter=path>a</parameter>\n<parameter=content>half of',
        '<write>\n<path>a</path>\n<content>half of',
        '{"action": "write", "arguments": {"path": "a", "content": "half of',
        'Action: write\nAction Input: {"path": "a", "content": "half of',
    ],
)  # fmt: skip
def test_half_a_call_is_told_and_never_made_whole(text: str) -> None:
    actions = Actions({"write"})
    actions.feed(text)
    (call,) = [item for item in actions.end() if isinstance(item, CallDelta)]
    assert call.name == "write"
    with pytest.raises(json.JSONDecodeError):
        json.loads(call.arguments)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{"action": "answer", "text": "It is "done", he says"}', 'It is "done", he says'),
        ('{"action": "answer", "text": "Use {"a": "b"} here"}\nBye', 'Use {"a": "b"} here'),
        ('{"action": "answer", "arguments": {"text": "Done."}}', "Done."),
        ('Good.\n{"action": "answer", "text": "Done."}', "Done."),
        ('{"action": "answer", "answer": "Done."}', "Done."),
        ("<think>\nHm.\n</think>\nDone.", "Done."),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_an_answer_is_shown_whole_and_without_what_stands_around_it(
    written: str, text: str, size: int
) -> None:
    actions = Actions({"read"})
    items = [item for at in range(0, len(written), size) for item in actions.feed(written[at : at + size])]
    items += actions.end()
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == text
    assert not any(isinstance(item, CallDelta) for item in items)


def test_an_action_of_a_tool_that_does_not_exist_is_no_answer() -> None:
    actions = Actions({"read"})
    actions.feed('{"action": "open_file", "path": "a.py"}')
    (call,) = [item for item in actions.end() if isinstance(item, CallDelta)]
    assert call.name == "open_file"


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '{"name": "Ada", "born": 1815}', "Use `read(path)`.", "<p>read</p>"]
)
def test_what_is_no_call_is_the_answer(text: str) -> None:
    actions = Actions({"read"})
    shown = "".join(item.text for item in actions.feed(text) + actions.end() if isinstance(item, TextDelta))
    assert shown == text

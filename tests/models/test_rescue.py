"""Calls that a model wrote as text are calls; everything else stays text."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from mainspring.events import CallDelta, Stop, TextDelta, Usage
from mainspring.models import ReplyFinished, StreamItem
from mainspring.models.rescue import Rescued, RescuedCall, rescue, rescued

KNOWN = frozenset({"read", "shell"})
READ = RescuedCall("read", '{"path":"a.py"}')
SHELL = RescuedCall("shell", '{"command":"ls"}')
READ_JSON = '{"name": "read", "arguments": {"path": "a.py"}}'

CASES = {
    "bare": (READ_JSON, Rescued("", (READ,))),
    "bare after a sentence": (f"I will read it.\n{READ_JSON}", Rescued("I will read it.", (READ,))),
    "fenced": (f"```json\n{READ_JSON}\n```", Rescued("", (READ,))),
    "fenced without a language": (f"Look:\n```\n{READ_JSON}\n```\nSo.", Rescued("Look:\n\nSo.", (READ,))),
    "a fence that was never closed": (f"```json\n{READ_JSON}", Rescued("", (READ,))),
    "tagged": (f"<tool_call>\n{READ_JSON}\n</tool_call>", Rescued("", (READ,))),
    "a tag that was never closed": (f"<tool_call>{READ_JSON}", Rescued("", (READ,))),
    "two tags": (
        f'<tool_call>{READ_JSON}</tool_call>\n<tool_call>{{"name":"shell","arguments":{{"command":"ls"}}}}</tool_call>',
        Rescued("", (READ, SHELL)),
    ),
    "a list": (
        f'[{READ_JSON}, {{"name": "shell", "parameters": {{"command": "ls"}}}}]',
        Rescued("", (READ, SHELL)),
    ),
    "one on each line": (
        f'{READ_JSON}\n{{"tool":"shell","args":{{"command":"ls"}}}}',
        Rescued("", (READ, SHELL)),
    ),
    "as the wire would say it": (
        '{"tool_calls":[{"type":"function","function":{"name":"read","arguments":"{\\"path\\":\\"a.py\\"}"}}]}',
        Rescued("", (READ,)),
    ),
    "without arguments": ('{"name": "read"}', Rescued("", (RescuedCall("read", "{}"),))),
    "an unknown tool": ('{"name": "fly", "arguments": {}}', Rescued("", (RescuedCall("fly", "{}"),))),
    "an unknown name without arguments": ('{"name": "fly"}', Rescued('{"name": "fly"}')),
    "raw line breaks and quotes": (
        '{"name": "shell", "arguments": {"command": "echo "hi there"\nls"}}',
        Rescued("", (RescuedCall("shell", '{"command":"echo \\"hi there\\"\\nls"}'),)),
    ),
    "a comma and a bracket too few": (
        '{"name": "read", "arguments": {"path": "a.py",}',
        Rescued("", (READ,)),
    ),
    "single quotes": ("{'name': 'read', 'arguments': {'path': 'a.py'}}", Rescued("", (READ,))),
    "what the model thinks the result is": (f"{READ_JSON}\nThe file says 3.", Rescued("", (READ,))),
    "a call that breaks off": (
        '{"name": "read", "arguments": {"path": "a.p',
        Rescued("", (RescuedCall("read", '{"path": "a.p'),)),
    ),
    "one unknown among known": (
        f'[{READ_JSON}, {{"name": "fly"}}]',
        Rescued(f'[{READ_JSON}, {{"name": "fly"}}]'),
    ),
    "other JSON": ('{"path": "a.py"}', Rescued('{"path": "a.py"}')),
    "a name that is no text": ('{"name": 3}', Rescued('{"name": 3}')),
    "arguments that are no object": (
        '{"name": "read", "arguments": 3}',
        Rescued('{"name": "read", "arguments": 3}'),
    ),
    "broken JSON": ('{"name": "read", "argu', Rescued('{"name": "read", "argu')),
    "code": ("```python\nprint({})\n```", Rescued("```python\nprint({})\n```")),
    "a call in the middle of a sentence": (
        f"Write {READ_JSON} to read.",
        Rescued(f"Write {READ_JSON} to read."),
    ),
    "plain text": ("Hello.\n\n[a link](b)", Rescued("Hello.\n\n[a link](b)")),
    "nothing": ("", Rescued("")),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_a_call_and_what_is_text(case: str) -> None:
    text, expected = CASES[case]
    assert rescue(text, KNOWN) == expected


def streamed(*pieces: StreamItem, stop: Stop = "end") -> list[StreamItem]:
    async def stream() -> AsyncGenerator[StreamItem]:
        for piece in (*pieces, ReplyFinished(stop, Usage())):
            yield piece

    async def collect() -> list[StreamItem]:
        return [item async for item in rescued(stream(), KNOWN)]

    return asyncio.run(collect())


def text_of(items: list[StreamItem]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextDelta))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_stream_gives_the_same_however_it_was_cut(case: str, size: int) -> None:
    text, expected = CASES[case]
    items = streamed(*(TextDelta(text=text[at : at + size]) for at in range(0, len(text), size)))
    calls = [RescuedCall(item.name, item.arguments) for item in items if isinstance(item, CallDelta)]
    assert calls == list(expected.calls)
    assert text_of(items).split() == expected.text.split()
    assert items[-1] == ReplyFinished("calls" if calls else "end", Usage())


def test_text_that_cannot_be_a_call_is_shown_at_once() -> None:
    items = streamed(TextDelta(text="Hello"), TextDelta(text=", <b"), TextDelta(text="ig> world"))
    assert [item.text for item in items if isinstance(item, TextDelta)] == ["Hello", ", ", "<big> world"]


def test_a_reply_with_real_calls_keeps_its_text() -> None:
    call = CallDelta(index=0, name="read", arguments="{}")
    items = streamed(TextDelta(text=READ_JSON), call, stop="calls")
    assert items == [call, TextDelta(text=READ_JSON), ReplyFinished("calls", Usage())]


def test_json_is_the_answer_when_one_was_asked_for() -> None:
    name = min(KNOWN)
    answer = f'{{"action": "{name}", "input": {{}}}}'
    assert rescue(answer, KNOWN).calls
    assert rescue(answer, KNOWN, is_tagged_only=True) == Rescued(answer)
    tagged = f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>'
    assert rescue(tagged, KNOWN, is_tagged_only=True).calls

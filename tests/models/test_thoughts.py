"""What a model thinks aloud in tags is no part of its reply, and no call in it is made."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from mainspring.events import CallDelta, TextDelta, ThinkingDelta, Usage
from mainspring.models import ReplyFinished, StreamItem
from mainspring.models.rescue import rescued
from mainspring.models.thoughts import divided

CASES = {
    "before an answer": ("<think>\nhm </th x\n</think>\n\nDone.", "hm </th x", "Done."),
    "two of them": ("<think>a</think>\n<thinking>b</thinking> Done.", "ab", "Done."),
    "an empty one": ("<think>\n\n</think>\n\nDone.", "", "Done."),
    "one that never ends": ("<think>hm", "hm", ""),
    "in the middle": ("See <think> x</think>", "", "See <think> x</think>"),
    "none": ("  <th>\n<p>", "", "  <th>\n<p>"),
    "a beginning": ("<thi", "", "<thi"),
}


async def _stream(text: str, size: int) -> AsyncGenerator[StreamItem]:
    for at in range(0, len(text), size):
        yield TextDelta(text=text[at : at + size])
    yield ReplyFinished(stop="end", usage=Usage())


def _all(items: AsyncGenerator[StreamItem]) -> list[StreamItem]:
    async def collected() -> list[StreamItem]:
        return [item async for item in items]

    return asyncio.run(collected())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_thought_is_told_apart_however_the_stream_is_cut(case: str, size: int) -> None:
    text, thought, answer = CASES[case]
    items = _all(divided(_stream(text, size)))
    assert "".join(item.text for item in items if isinstance(item, ThinkingDelta)).strip() == thought
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == answer


@pytest.mark.parametrize("opening", ["<think>\n", ""])
def test_a_call_in_a_thought_is_not_made(opening: str) -> None:
    call = '{"name": "shell", "arguments": {"command": "rm x"}}'
    text = f"{opening}Maybe\n{call}\nor rather\n</think>\n{call.replace('rm', 'ls')}"
    items = _all(rescued(divided(_stream(text, 3)), {"shell"}))
    (made,) = [item for item in items if isinstance(item, CallDelta)]
    assert "ls x" in made.arguments

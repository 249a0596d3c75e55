"""Markdown that comes in pieces is cut into blocks that nothing later can change."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mainspring.chat.markdown import MarkdownBlock, MarkdownStream
from mainspring.chat.palette import Palette
from mainspring.chat.rich_text import rendered

TEXT = """# Title
First paragraph
goes on.

- one
- two

  more of two

```python
x = 1

y = 2
```
After it.

| a | b |
|---|---|
| 1 | 2 |
"""


def blocks(*pieces: str) -> list[MarkdownBlock]:
    stream = MarkdownStream()
    return [*(block for piece in pieces for block in stream.feed(piece)), *stream.finish()]


def test_blocks_end_where_nothing_can_change_them() -> None:
    assert [block.text for block in blocks(TEXT)] == [
        "# Title",
        "First paragraph\ngoes on.",
        "- one\n- two\n\n  more of two",
        "```python\nx = 1\n\ny = 2\n```",
        "After it.",
        "| a | b |\n|---|---|\n| 1 | 2 |",
    ]


@given(st.lists(st.integers(0, len(TEXT)), max_size=20))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[start:end] for start, end in pairwise(places)]
    assert blocks(*pieces) == blocks(TEXT)


def test_a_block_is_given_as_soon_as_it_is_finished() -> None:
    stream = MarkdownStream()
    assert stream.feed("- one\n\n") == []
    assert [block.text for block in stream.feed("two\n")] == ["- one"]
    assert stream.rest == "two\n"


def test_a_paragraph_is_given_at_the_empty_line_below_it() -> None:
    stream = MarkdownStream()
    assert [block.text for block in stream.feed("One.\nStill one.\n\nTw")] == ["One.\nStill one."]
    assert stream.rest == "Tw"


def test_long_code_comes_in_parts_and_loses_no_line() -> None:
    code = "\n".join(f"line {number}" for number in range(100))
    parts = blocks(f"```text\n{code}\n```\n")
    assert len(parts) > 3
    assert [part.is_joined for part in parts] == [False, *[True] * (len(parts) - 1)]
    shown = "\n".join(rendered(part.text, columns=80, palette=Palette(is_styled=False)) for part in parts)
    assert [line.strip() for line in shown.split("\n")] == code.split("\n")


def test_rendered_text_keeps_to_the_width_and_code_is_not_wrapped() -> None:
    prose = rendered("word " * 50, columns=40, palette=Palette(is_styled=False))
    assert max(map(len, prose.split("\n"))) <= 40
    assert "x" * 200 in rendered("```\n" + "x" * 200 + "\n```", columns=40, palette=Palette())


def test_without_colours_nothing_but_weight_is_written() -> None:
    text = "".join(rendered(block.text, columns=60, palette=Palette(theme="mono")) for block in blocks(TEXT))
    codes = {code for found in re.findall(r"\x1b\[([\d;]*)m", text) for code in found.split(";")}
    assert codes <= {"", "0", "1", "2", "3", "4"}
    plain = "".join(
        rendered(block.text, columns=60, palette=Palette(is_styled=False)) for block in blocks(TEXT)
    )
    assert "\x1b" not in plain

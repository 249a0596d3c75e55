"""Markdown that comes in pieces is cut into blocks that nothing later can change."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest
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


def test_a_rule_is_drawn_as_lines_of_tables_are() -> None:
    assert rendered("---", columns=20, palette=Palette(is_styled=False)) == "─" * 20


def test_comments_can_be_read_on_a_light_background() -> None:
    code = "```python\nx = 1  # a note\n```"
    light, dark = (rendered(code, columns=40, palette=Palette(theme=theme)) for theme in ("light", "dark"))
    assert "\x1b[90m# a note" in light
    assert "\x1b[37m" not in light, "light grey is hardly seen there"
    assert light != dark


def test_without_colours_nothing_but_weight_is_written() -> None:
    text = "".join(rendered(block.text, columns=60, palette=Palette(theme="mono")) for block in blocks(TEXT))
    codes = {code for found in re.findall(r"\x1b\[([\d;]*)m", text) for code in found.split(";")}
    assert codes <= {"", "0", "1", "2", "3", "4"}
    plain = "".join(
        rendered(block.text, columns=60, palette=Palette(is_styled=False)) for block in blocks(TEXT)
    )
    assert "\x1b" not in plain


KEPT = {
    "types": "Use List<String> and Map<K, V>, not <b>these</b>.",
    "a page": "<div>\n  hello <i>world</i>\n</div>",
    "details": "<details>\n<summary>More</summary>\n\nhidden text\n\n</details>",
    "an image": "![a picture](docs/image.png) beside text that goes on until the line is full",
    "what a link refers to": "See [the manual][1].\n\n[1]: https://example.com/manual",
    "a table of long words": "|name|what|\n|---|---|\n|somethingratherlong|anotherverylongword|",
    "a table that is too wide": "|a|b|c|d|e|f|\n|---|---|---|---|---|---|\n|one|two|three|four|five|six|",
    "code with a bar in a table": "|code|means|\n|---|---|\n|`left|right`|either of both|",
    "lists in lists": "\n".join("  " * depth + f"- level {depth} of words" for depth in range(8)),
    "quotes in quotes": "> > > > > > deep words",
    "wide characters": "|名前|説明|\n|---|---|\n|日本語の長い文章|とても長い説明文がここに入ります|",
    "an item": "7. seven\n8. eight",
}


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_no_letter_of_an_answer_is_lost(text: str, columns: int) -> None:
    shown = rendered(text, columns=columns, palette=Palette(is_styled=False))
    assert not Counter(filter(str.isalnum, text)) - Counter(filter(str.isalnum, shown)), shown


def test_what_is_crossed_out_is_not_said_without_colours() -> None:
    assert "~~not~~" in rendered("do ~~not~~ delete", columns=80, palette=Palette(theme="mono"))
    assert "~~" not in rendered("do ~~not~~ delete", columns=80, palette=Palette())


def test_an_address_is_shown_once_and_a_break_breaks() -> None:
    shown = rendered("<https://x.org> and a<br>b", columns=80, palette=Palette(is_styled=False))
    assert shown == "https://x.org and a\nb"


def test_a_table_that_is_too_narrow_for_its_words_has_a_line_for_each_cell() -> None:
    table = "|name|what|more|\n|---|---|---|\n|first|some words|other words|"
    assert rendered(table, columns=80, palette=Palette(is_styled=False)).split("\n")[0].split() == [
        "name", "what", "more"]  # fmt: skip
    assert rendered(table, columns=18, palette=Palette(is_styled=False)).split("\n") == [
        "name: first", "what: some words", "more: other words"]  # fmt: skip

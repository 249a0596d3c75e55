"""What a chat shows of calls and of children, as text."""

from __future__ import annotations

import pytest

from mainspring.chat.blocks import call_block
from mainspring.chat.palette import Palette
from mainspring.events import CallAsked, CallEnded

PALETTE = Palette(is_styled=False)


@pytest.mark.parametrize("columns", [40, 44, 60, 100])
def test_a_call_takes_one_line_however_narrow_it_is(columns: int) -> None:
    call = CallAsked(call="c", name="shell", arguments='{"command": "python3 -B test_shop.py"}')
    ended = CallEnded(call="c", outcome="error", exit_code=1, duration_s=0.177, output="one\ntwo\n")
    line = call_block(call, ended, PALETTE, columns=columns)
    assert len(line) <= columns
    assert "exit code 1" in line

"""Golden screens: the pictures of the documentation show what a chat shows now."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from scripts.pictures import DARK, draw_screen, text_of
from tests.chat.screens import SITUATIONS, screen_of

PICTURES = Path(__file__).parents[2] / "docs" / "images"


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_picture_shows_what_the_chat_shows(name: str) -> None:
    drawn = text_of((PICTURES / f"{name}.svg").read_text("utf-8"))
    now = text_of(draw_screen(screen_of(name), DARK, title=""))
    assert [unescape(line).rstrip() for line in drawn] == [unescape(line).rstrip() for line in now], (
        "run `make pictures`"
    )

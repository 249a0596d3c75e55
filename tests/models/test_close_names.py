"""Which names are close to one that nobody knows."""

from __future__ import annotations

import pytest

from mainspring.models.close_names import close_names

KNOWN = (
    *("anthropic/claude-3-5-sonnet", "anthropic/claude-sonnet-4-5", "anthropic/claude-haiku-4-5"),
    *("openai/gpt-5", "openai/gpt-5-mini", "deepseek/deepseek-chat", "fast"),
)


@pytest.mark.parametrize(
    ("wrong", "closest"),
    [
        ("claude-sonet-4-5", "anthropic/claude-sonnet-4-5"),
        ("antropic/claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("openai/gtp-5", "openai/gpt-5"),
        ("sonnet", "anthropic/claude-sonnet-4-5"),
        ("GPT-5-Mini", "openai/gpt-5-mini"),
        ("fst", "fast"),
        ("openai-compatible@http://127.0.0.1:1/v1#deepsek-chat", "deepseek/deepseek-chat"),
    ],
)
def test_the_closest_name_comes_first(wrong: str, closest: str) -> None:
    assert close_names(wrong, KNOWN)[0] == closest


@pytest.mark.parametrize("far", ["", "x", "llama-70b-instruct-of-somebody"])
def test_nothing_is_suggested_that_is_far(far: str) -> None:
    assert close_names(far, KNOWN) == ()


def test_the_name_itself_is_no_suggestion() -> None:
    assert "openai/gpt-5" not in close_names("openai/gpt-5", KNOWN)

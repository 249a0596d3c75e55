"""How much a reply may have, and how much of that is for thinking.

Providers count thinking as output, so room for the answer must stay beside it. A limit that a model does not
take is found by its refusal (`Wire.heal`).
"""

from __future__ import annotations

from mainspring.events import Effort

USUAL_OUTPUT = 32_000
"""Tokens of a reply, thinking included, where nothing else bounds it."""

_MOST_OUTPUT = 64_000
_MOST_CHARACTERS_PER_TOKEN, _BESIDE = 8, 2_000
_SHARES: dict[Effort, float] = {"low": 1 / 8, "medium": 5 / 16, "high": 1 / 2, "max": 3 / 4}
_USUAL_SHARE = 5 / 16


def wanted_output(effort: Effort | None) -> int:
    """How many tokens a reply may have at most, if they can be paid."""
    return _MOST_OUTPUT if effort == "max" else USUAL_OUTPUT


def thinking_share(effort: Effort | None, output_limit: int) -> int:
    """How many of these tokens are for thinking: more with each effort, and never all of them."""
    return int(output_limit * (_SHARES[effort] if effort else _USUAL_SHARE))


def fitting_effort(effort: Effort | None, output_limit: int | None) -> Effort | None:
    """The highest effort up to this with which an answer has room beside the thoughts, for models that are
    told a level and no number of tokens."""
    if effort is None or output_limit is None:
        return effort
    levels = list(_SHARES)
    for level in reversed(levels[: levels.index(effort) + 1]):
        if thinking_share(level, wanted_output(level)) <= output_limit * _SHARES["max"]:
            return level
    return levels[0]


def most_characters(output_limit: int | None) -> int:
    """How much text a reply can have. A server that sends more does not know an end."""
    return (output_limit or 2 * _MOST_OUTPUT) * _MOST_CHARACTERS_PER_TOKEN + _BESIDE


def thinking_cap(effort: Effort | None, usual: int) -> int:
    """How many tokens of thinking there may be with an effort, of what there may be without one."""
    return int(usual * _SHARES[effort] / _USUAL_SHARE) if effort else usual

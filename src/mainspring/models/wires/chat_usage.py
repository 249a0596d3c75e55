"""What a reply of the chat wire used, in the fields that servers name differently."""

from __future__ import annotations

import msgspec

from mainspring.events import Usage
from mainspring.models.wires.counts import Count, counted, number


class _InputDetails(msgspec.Struct):
    cached_tokens: Count = None
    cache_write_tokens: Count = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: Count = None


class TokenUsage(msgspec.Struct):
    prompt_tokens: Count = None
    completion_tokens: Count = None
    total_tokens: Count = None
    prompt_cache_hit_tokens: Count = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


def usage_of(usage: TokenUsage) -> Usage:
    sent, written = number(usage.prompt_tokens), number(usage.completion_tokens)
    given, made = usage.prompt_tokens_details, usage.completion_tokens_details
    reasoning = number(made.reasoning_tokens) if made else 0
    # Some count reasoning beside the completion, not in it; the total tells.
    if reasoning and number(usage.total_tokens) == sent + written + reasoning:
        written += reasoning
    return counted(
        sent,
        written,
        cached=(given.cached_tokens if given else None) or usage.prompt_cache_hit_tokens,
        cache_written=given.cache_write_tokens if given else 0,
        reasoning=reasoning,
    )

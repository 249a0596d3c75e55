"""Text in a tool's output that reads like orders to the model. Pure.

A hint for the person, no guard: it misses much and is sometimes wrong, so nothing is hidden or refused.
"""

from __future__ import annotations

import re
from functools import cache

_MAX_QUOTES = 3
_QUOTE_CHARS = 120

_PERSON = r"\b(?:user|human|person|operator)\b"
_ORDERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("ignore", "disregard", "forget", "override"),
        (
            r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,30}\b(?:previous|prior|above|earlier|preceding|all|your)\b"
            r"[^.\n]{0,30}\b(?:instructions?|prompts?|rules|guidelines|directives|context)\b"
        ),
    ),
    (
        ("instructions", "prompt"),
        r"\b(?:new|updated|real|actual)\s+(?:system\s+)?(?:instructions|prompt)\s*(?::|follow|are)",
    ),
    (("you are now",), r"\byou are now\s+(?:a|an|in|the|free|no\s+longer)\b"),
    (
        ("do not ",),
        rf"\bdo not\s+(?:tell|inform|mention|reveal|show|alert)\b[^.\n]{{0,30}}{_PERSON}",
    ),
    (
        ("without ",),
        rf"\bwithout\s+(?:telling|informing|asking|notifying)\s+(?:the\s+)?{_PERSON}",
    ),
    (
        ("<|", "inst]", "sys>>", "<system", "</system"),
        (
            r"<\|(?:im_start|start_header_id|system|assistant)|\[/?inst\]|<</?sys>>"
            r"|</?system(?:[-_\s](?:prompt|message|reminder))?>"
        ),
    ),
    (
        ("attention", "important", "note", "message", "instruction"),
        (
            r"^[ \t]*(?:#{1,6}[ \t]*)?(?:attention|important|note|message|instructions?)\b[^\n]{0,20}"
            r"\b(?:ai|llm|language\s+model|assistant|agent)s?\b[^\n]{0,20}[:!,]"
        ),
    ),
    (
        ("ai ", "llm "),
        r"\b(?:ai|llm)\s+(?:agents?|assistants?|models?)\b[^.\n]{0,40}\b(?:must|should|shall)\b",
    ),
    (
        ("your system", "your prompt", "your instructions"),
        r"\b(?:reveal|print|repeat|output|leak)\b[^.\n]{0,20}\byour\s+(?:system\s+)?(?:prompt|instructions)\b",
    ),
    (("\U000e0020", "\U000e0061", "\U000e0065"), r"[\U000e0020-\U000e007e]{4,}"),
)
"""What a text must contain for an order to be looked for at all, and the order; all in lower case."""


def suspicions(text: str) -> tuple[str, ...]:
    """Quotes of what reads like orders to the model, the first few."""
    lowered = text.lower()
    source = text if len(text) == len(lowered) else lowered
    spans = sorted(
        found.span()
        for hints, order in _ORDERS
        if any(hint in lowered for hint in hints)
        for found in _compiled(order).finditer(lowered)
    )
    quotes = (source[start:end].strip()[:_QUOTE_CHARS] for start, end in spans)
    return tuple(dict.fromkeys(quotes))[:_MAX_QUOTES]


@cache
def _compiled(order: str) -> re.Pattern[str]:
    return re.compile(order, re.MULTILINE)

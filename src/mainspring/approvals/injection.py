"""Text in a tool's output that reads like orders to the model. Pure.

A hint for the person, no guard: it misses much and is sometimes wrong, so nothing is hidden or refused.
"""

from __future__ import annotations

import re
from functools import cache

_MAX_QUOTES = 3
_QUOTE_CHARS = 120

_SUSPICIOUS = r"""
    \b(?:ignore|disregard|forget|override)\b[^.\n]{0,30}\b(?:previous|prior|above|earlier|preceding|all|your)\b
        [^.\n]{0,30}\b(?:instructions?|prompts?|rules|guidelines|directives|context)\b
  | \b(?:new|updated|real|actual)\s+(?:system\s+)?(?:instructions|prompt)\s*(?::|follow|are)
  | \byou\s+are\s+now\s+(?:a|an|in|the|free|no\s+longer)\b
  | \bdo\s+not\s+(?:tell|inform|mention|reveal|show|alert)\b[^.\n]{0,30}\b(?:user|human|person|operator)\b
  | \bwithout\s+(?:telling|informing|asking|notifying)\s+(?:the\s+)?(?:user|human|person|operator)\b
  | <\|(?:im_start|start_header_id|system|assistant)|\[/?INST\]|<</?SYS>>
  | </?system(?:[-_\s](?:prompt|message|reminder))?>
  | ^\s*(?:\#{1,6}\s*)?(?:attention|important|note|message|instructions?)\b[^\n]{0,20}
        \b(?:ai|llm|language\s+model|assistant|agent)s?\b[^\n]{0,20}[:!,]
  | \b(?:ai|llm)\s+(?:agents?|assistants?|models?)\b[^.\n]{0,40}\b(?:must|should|shall)\b
  | \b(?:reveal|print|repeat|output|leak)\b[^.\n]{0,20}\byour\s+(?:system\s+)?(?:prompt|instructions)\b
  | [\U000e0020-\U000e007e]{4,}
"""


def suspicions(text: str) -> tuple[str, ...]:
    """Quotes of what reads like orders to the model, the first few."""
    quotes = (found[0].strip()[:_QUOTE_CHARS] for found in _pattern().finditer(text))
    return tuple(dict.fromkeys(quotes))[:_MAX_QUOTES]


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(_SUSPICIOUS, re.IGNORECASE | re.MULTILINE | re.VERBOSE)

"""Reads what a sentence is about, by plain rules: an announcement, or a rule that must not be forgotten."""

from __future__ import annotations

import re

from mainspring.patterns import lazy_pattern

_SENTENCE = lazy_pattern(r"(?<=[.!?])\s+|\n+")
_ANNOUNCED = lazy_pattern(
    r"^(?:(?:now|next|first|then|so|okay|ok|alright|great|good)[,:]?\s+)*"
    r"(?:i['’]?ll|i will|i am going to|i['’]m going to|i am about to|let me|let['’]s)\s+(?P<verb>[a-z]+)",
    re.IGNORECASE,
)
_NOT_WORK = frozenset({"know", "be", "not", "never", "leave", "stop", "wait", "need"})
_RULE = lazy_pattern(
    r"\b(?:never|always|must|mustn['’]t|do not|don['’]t|does not have to|only|without|avoid|forbidden"
    r"|not allowed|at most|at least|no more than|keep|exactly|shall)\b",
    re.IGNORECASE,
)
_BULLET = lazy_pattern(r"^\s*(?:[-*•]|\d+[.)])\s+")
_MAX_RULE = 300


def sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def announces(text: str) -> bool:
    """Whether a message ends by saying what its author is about to do."""
    said = sentences(text)
    if not said or said[-1].endswith("?"):
        return False
    found = _ANNOUNCED.match(_BULLET.sub("", said[-1]))
    return found is not None and found["verb"].lower() not in _NOT_WORK


def rules(text: str) -> list[str]:
    """The sentences that say what must or must not be done."""
    found = (_BULLET.sub("", sentence) for sentence in sentences(text) if _RULE.search(sentence))
    return [sentence if len(sentence) <= _MAX_RULE else sentence[: _MAX_RULE - 1] + "…" for sentence in found]

"""What an agent suspects while it fixes something: lines of its messages, and what came of each. Pure.

An agent's word refutes a hypothesis; it confirms one only when the command passes after the change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mainspring.events import HypothesisJudged
from mainspring.goals.protocol import spoken_lines
from mainspring.patterns import lazy_pattern

STILL_FAILS = "the agent held it for confirmed, and the fix for it did not pass"
_MAX_TEXT = 400
_MAX_HYPOTHESES = 20
_LINE = lazy_pattern(
    r"(?:[-*] |\d+[.)] )?(?:\*\*)?(HYPOTHESIS|CONFIRMED|REFUTED)(?:\*\*)?"
    r" ?#?(\d{1,3})?(?:\*\*)? ?: ?(?:\*\*)? ?(\S.*)"
)


def read_hypotheses(texts: Iterable[str], *, attempt: int, is_passed: bool) -> tuple[HypothesisJudged, ...]:
    """What the messages of an attempt suspect, in their order, judged by what they say and whether it passed.
    A line without a number is about the last hypothesis, or a new one."""
    stated: dict[int, str] = {}
    said: dict[int, tuple[str, str]] = {}
    for line in (line for text in texts for line in spoken_lines(text)):
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        word, text = found[1], found[3].strip("* ")[:_MAX_TEXT]
        last = max(stated, default=0)
        number = int(found[2]) if found[2] else last + (word == "HYPOTHESIS")
        if word == "HYPOTHESIS":
            if len(stated) < _MAX_HYPOTHESES:
                stated.setdefault(number, text)
        else:
            said[number] = (word, text)
    return tuple(
        _judged(attempt, number, text, *said.get(number, ("", "")), is_passed=is_passed)
        for number, text in stated.items()
    )


def _judged(
    attempt: int, number: int, text: str, word: str, why: str, *, is_passed: bool
) -> HypothesisJudged:
    verdict = "open"
    if word == "REFUTED":
        verdict = "refuted"
    elif word == "CONFIRMED":
        verdict, why = ("confirmed", why) if is_passed else ("open", f"{STILL_FAILS}: {why}")
    return HypothesisJudged(attempt=attempt, number=number, text=text, verdict=verdict, why=why)


def told_hypotheses(judged: Sequence[HypothesisJudged]) -> str:
    """What the next attempt is told of what earlier ones suspected; empty when there is nothing."""
    lines = [
        f"- {each.verdict}: {each.text}" + (f" ({each.why})" if each.why else "")
        for each in judged
        if each.verdict != "confirmed"
    ]
    return "\n".join(["What earlier attempts suspected, and what came of it:", *lines]) if lines else ""


def without_repeats(judged: Sequence[HypothesisJudged]) -> list[HypothesisJudged]:
    """Each text once, as it was judged last."""
    return list({re.sub(r"\W+", " ", each.text).strip().lower(): each for each in judged}.values())

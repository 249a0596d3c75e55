"""Events of a fix as lines for people; a part of the table in `lines`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.events import Event, FaultReproduced, FixEnded, FixStarted, HypothesisJudged
from mainspring.events.counts import plural

_SHOWN = 5
VERDICT_MARKS = {"confirmed": "✓", "refuted": "✗", "open": "?"}
_OUTCOMES = {
    "fixed": "fixed",
    "passes": "nothing to fix",
    "flaky": "flaky",
    "unusable": "cannot run here",
    "attempts": "not fixed",
    "budget": "not fixed, budget used up",
    "limit": "not fixed, limit reached",
    "failed": "not fixed",
    "stopped": "stopped",
}


def outcome_words(ended: FixEnded) -> str:
    """How a fix ended, in a line."""
    return f"{_OUTCOMES[ended.outcome]}: {ended.detail}"


def _fix_started(event: FixStarted) -> str:
    often = f", {event.repeat} times in a row" if event.repeat > 1 else ""
    where = f", in a worktree on {event.branch}" if event.branch else ""
    return f"⚒ to be made to pass{often}: {event.command}{where}"


def _fault_reproduced(event: FaultReproduced) -> str:
    lines = [f"⚒ reproduced: {event.failed} of {plural(event.runs, 'run')} failed"]
    if event.tests:
        more = len(event.tests) - _SHOWN
        names = ", ".join(event.tests[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        lines.append(f"  failing: {names}")
    if event.places:
        at = (f"{each.path}:{each.line}{' (changed lately)' * each.is_recent}" for each in event.places)
        lines.append(f"  points to: {', '.join([*at][:_SHOWN])}")
    return "\n".join(lines)


def _hypothesis_judged(event: HypothesisJudged) -> str:
    why = f" ({event.why})" if event.why else ""
    return f"{VERDICT_MARKS[event.verdict]} hypothesis {event.number} {event.verdict}: {event.text}{why}"


def _fix_ended(event: FixEnded) -> str:
    return f"⚒ {outcome_words(event)}"


FIX_LINES: dict[type[Event], Callable[[Any], str]] = {
    FixStarted: _fix_started,
    FaultReproduced: _fault_reproduced,
    HypothesisJudged: _hypothesis_judged,
    FixEnded: _fix_ended,
}
"""How each kind of event reads."""

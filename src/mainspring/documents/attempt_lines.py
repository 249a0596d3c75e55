"""Events of attempts as lines for people; a part of the table in `lines`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.events import (
    AlternativeTried,
    AttemptEnded,
    AttemptsEnded,
    AttemptsStarted,
    AttemptStarted,
    Event,
    SamplingChosen,
)
from mainspring.events.counts import plural

_SHOWN_FILES = 5


def _sampling_chosen(event: SamplingChosen) -> str:
    if event.temperature is None and event.seed is None:
        return ""
    seed = "" if event.seed is None else f", seed {event.seed}"
    heat = "as the model chooses" if event.temperature is None else f"{event.temperature:g}"
    return f"· temperature {heat}{seed}" + (f" ({event.reason})" if event.reason else "")


def _alternative_tried(event: AlternativeTried) -> str:
    where = "before" if event.is_added else "in place of"
    return f"· trying {event.path}:{event.line}: `{event.new.strip()}` {where} `{event.old.strip()}`"


def _attempts_started(event: AttemptsStarted) -> str:
    if event.base:
        checks = f"; each is checked by {'; '.join(event.checks)}" if event.checks else ""
        return f"⟳ {plural(event.attempts, 'attempt')}, each in a worktree{checks}: {event.task}"
    checks = f", until this passes: {'; '.join(event.checks)}" if event.checks else ""
    return f"⟳ up to {plural(event.attempts, 'attempt')}{checks}"


def _attempt_started(event: AttemptStarted) -> str:
    model = f" by {event.model}" if event.model else ""
    where = f": session {event.session} on {event.branch}" if event.session else ""
    return f"⟳ attempt {event.attempt}{model}{where}"


def _attempt_ended(event: AttemptEnded) -> str:
    total = len(event.passed) + len(event.failed)
    checks = f"{len(event.passed)} of {plural(total, 'check')} passed" if total else "no checks"
    failed = f" (failed: {'; '.join(event.failed)})" if event.failed else ""
    more = len(event.files) - _SHOWN_FILES
    names = ", ".join(event.files[:_SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")
    changed = f"{plural(event.changed_lines, 'line')} changed in {names}" if names else "no file changed"
    used = f"{plural(event.used.steps, 'step')}, {event.used.usd:.4f} USD"
    return f"⟳ attempt {event.attempt} {event.ending}: {checks}{failed}; {changed}; {used}"


def _attempts_ended(event: AttemptsEnded) -> str:
    others = [
        f"--to {seq} (attempt {number})"
        for number, seq in enumerate(event.end_seqs, 1)
        if seq and number != event.kept
    ]
    line = f"⟳ kept attempt {event.kept} of {len(event.end_seqs)}: {event.reason}"
    return f"{line}\n  another one: mainspring rewind SESSION {' or '.join(others)}" if others else line


ATTEMPT_LINES: dict[type[Event], Callable[[Any], str]] = {
    SamplingChosen: _sampling_chosen,
    AlternativeTried: _alternative_tried,
    AttemptsStarted: _attempts_started,
    AttemptStarted: _attempt_started,
    AttemptEnded: _attempt_ended,
    AttemptsEnded: _attempts_ended,
}
"""How each kind of event reads."""

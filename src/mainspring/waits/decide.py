"""Whether a wait is over, and why: a pure function of what was seen and what the clock shows."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.events import WaitCause, WaitStarted

_ASLEEP_US = 60_000_000


class Observation(msgspec.Struct, frozen=True):
    """A condition was met, at `at_us` as far as that is known; or nobody can tell any more (`is_lost`)."""

    text: str
    at_us: int | None = None
    is_lost: bool = False


class Decision(msgspec.Struct, frozen=True):
    """`at_us` is when the wait could have woken."""

    cause: WaitCause
    met: tuple[int, ...]
    at_us: int


def decide(
    wait: WaitStarted,
    seen: Mapping[int, Observation],
    *,
    now_us: int,
    is_interrupted: bool = False,
    is_stalled: bool = False,
) -> Decision | None:
    """Why the wait is over; None while it is not. What happened after the deadline does not make up for it,
    when it is known that it happened after it."""
    met = tuple(sorted(place for place, item in seen.items() if not item.is_lost))
    met_us = _met_us(wait, seen, met, now_us)
    deadline_us = wait.deadline_us
    is_late = deadline_us is not None and now_us >= deadline_us
    if met_us is not None and (deadline_us is None or met_us <= deadline_us or not is_late):
        return Decision("met", met, min(met_us, now_us))
    if is_late and deadline_us is not None:
        return Decision("deadline", met, deadline_us)
    if is_interrupted:
        return Decision("cancelled", met, now_us)
    if any(item.is_lost for item in seen.values()):
        return Decision("unknown", met, now_us)
    return Decision("stalled", met, now_us) if is_stalled else None


def _met_us(
    wait: WaitStarted, seen: Mapping[int, Observation], met: tuple[int, ...], now_us: int
) -> int | None:
    """When enough conditions were met. Of what has no known time it is not claimed that it was too late."""
    unknown_us = now_us if wait.deadline_us is None else min(now_us, wait.deadline_us)
    times = [unknown_us if (at_us := seen[place].at_us) is None else at_us for place in met]
    if wait.needs == "any":
        return min(times, default=None)
    return max(times) if len(times) == len(wait.conditions) else None


def late_s(decision: Decision, *, now_us: int, began_us: int) -> float:
    """How long ago it could have woken: before this process looked at it, or while the machine slept."""
    gone_us = now_us - decision.at_us
    return round(gone_us / 1e6, 3) if decision.at_us < began_us or gone_us > _ASLEEP_US else 0.0


def sleep_s(wait: WaitStarted, *, now_us: int, slice_s: float) -> float:
    """How long to sleep at most before the clock is looked at again."""
    if wait.deadline_us is None:
        return slice_s
    return min(slice_s, max(wait.deadline_us - now_us, 0) / 1e6)

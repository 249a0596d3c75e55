"""When a provider says that it will answer again, in whichever way it says so."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mainspring.patterns import lazy_pattern

_HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"
_DURATION = lazy_pattern(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_MOST_S = 366 * 86400.0
"""No limit resets later; whoever says so is not waited for."""
_RESETS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
)


def retry_after_s(headers: Mapping[str, str], details: Sequence[Mapping[str, Any]]) -> float | None:
    """What `Retry-After` says, else what the body says, else when the limit that was used up resets."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None and milliseconds <= _MOST_S * 1000:
        return milliseconds / 1000
    if (wait := _wait_s(headers.get("retry-after", ""))) is not None:
        return wait
    for detail in details:
        if (wait := _wait_s(str(detail.get("retryDelay", "")))) is not None:
            return wait
    waits = [
        wait
        for remaining, reset in _RESETS
        if headers.get(remaining) == "0" and (wait := _wait_s(headers.get(reset, ""))) is not None
    ]
    return max(waits, default=None)


def _wait_s(text: str) -> float | None:
    wait_s = _said_s(text)
    return wait_s if wait_s is not None and wait_s <= _MOST_S else None


def _said_s(text: str) -> float | None:
    """Seconds, a duration such as `6m0.5s`, a moment since 1970, or a date."""
    number = _number(text)
    if number is not None:
        if number > 1e11:
            number /= 1000
        return max(number - time.time(), 0.0) if number > 1e9 else number
    if text and (match := _DURATION.fullmatch(text)):
        days, hours, minutes, seconds, milliseconds = (float(group or 0) for group in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return _until(text) if text else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e15 else None


def _until(text: str) -> float | None:
    try:
        if text[:4].isdigit():
            moment = datetime.fromisoformat(text)
        else:
            moment = datetime.strptime(text.strip(), _HTTP_DATE).replace(tzinfo=UTC)
    except ValueError:
        return None
    return max(moment.timestamp() - time.time(), 0.0)

"""The line at the bottom: model, mode, sandbox, context, money, processes, waits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainspring.chat.palette import Palette
from mainspring.chat.width import clipped, get_width
from mainspring.documents.figures import money
from mainspring.events import OnTime, WaitStarted
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain_name

if TYPE_CHECKING:
    from mainspring.app.operations.status import SessionStatus

_NEARLY_FULL = 0.8


def bar_line(status: SessionStatus, palette: Palette, *, columns: int, now_us: int, queued: int) -> str:
    """What fits of it; what matters least is left out first."""
    parts = _parts(status, now_us=now_us, queued=queued)
    kept = sorted(parts, key=lambda part: part[0])
    while len(kept) > 1 and _width([text for _, text in kept]) > columns - 1:
        kept.pop()
    shown = [text for rank, text in parts if (rank, text) in kept]
    line = " " + " · ".join(shown)
    is_tight = status.window and status.tokens / status.window >= _NEARLY_FULL
    return palette.paint(clipped(line, columns - 1), *(("yellow",) if is_tight else ("dim",)))


def short_model(name: str) -> str:
    """A model without its provider and address."""
    name = name.rpartition("#")[2] if "#" in name else name.rpartition("/")[2]
    return plain_name(name)


def _parts(status: SessionStatus, *, now_us: int, queued: int) -> list[tuple[int, str]]:
    """Each with its rank: the lower, the longer it is kept."""
    effort = f" {status.effort}" if status.effort else ""
    parts = [(0, short_model(status.model) + effort), (1, status.mode)]
    if status.owner:
        parts.append((1, f"run by {plain_name(status.owner)}"))
    if status.sandbox:
        parts.append((5, f"sandbox {status.sandbox}"))
    if status.window:
        parts.append((3, f"context {status.tokens / status.window:.0%}"))
    elif status.tokens:
        parts.append((6, f"{status.tokens:,} tokens"))
    cap = f" of {_cap(status.cap_usd)}" if status.cap_usd is not None else ""
    parts.append((2, f"{money(status.spent_usd)}{cap}"))
    if status.processes:
        parts.append((4, plural(status.processes, "process")))
    parts += [(3, _wait(each, now_us)) for each in status.waits[:1]]
    if queued:
        parts.append((2, f"{queued} queued"))
    return parts


def _cap(usd: float) -> str:
    """As people name a limit: in whole dollars or cents, where it is."""
    cents = round(usd * 100, 4)
    return money(usd) if cents % 1 else f"${usd:.2f}".removesuffix(".00")


def _wait(wait: WaitStarted, now_us: int) -> str:
    """How long it lasts: exactly, where it is for a time alone, else at most."""
    times = [each.at_us for each in wait.conditions if isinstance(each, OnTime)]
    ends = [*([wait.deadline_us] if wait.deadline_us is not None else []), *times]
    if wait.needs == "all" and len(wait.conditions) > 1:
        ends = [wait.deadline_us] if wait.deadline_us is not None else []
    if not ends:
        return "waiting"
    left = max((min(ends) - now_us) // 1_000_000, 0)
    hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
    most = "" if len(times) == len(wait.conditions) == 1 else ", at most"
    return f"waiting{most} {f'{hours}:{minutes:02d}' if hours else minutes}:{seconds:02d}"


def _width(texts: Sequence[str]) -> int:
    return 1 + sum(map(get_width, texts)) + 3 * (len(texts) - 1)

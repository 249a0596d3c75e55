"""What the daemon does next, decided from the list of sessions and from what it wrote down. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from mainspring.catalog import SessionRow
from mainspring.daemon.files import DaemonRecord, DaemonRun, Trouble
from mainspring.events.counts import plural
from mainspring.goals.lock import is_overlapping
from mainspring.goals.schedules import Due
from mainspring.settings import DaemonSettings

_DAY_US = 86_400_000_000
_BACKOFF = 6
_TAKEN = 3
_TAKEN_WAIT_US = 30_000_000


class DaemonPlan(msgspec.Struct, frozen=True):
    """Which sessions to resume now; of those that wait for nothing else, why they are left alone; when the
    next one may be tried again; and whether some wait for room."""

    resume: tuple[SessionRow, ...] = ()
    left_alone: Mapping[str, str] = {}
    retry_us: int | None = None
    is_full: bool = False


def oldest_first(row: SessionRow) -> Any:
    return row.started_us, row.id


def plan(
    rows: Sequence[SessionRow],
    record: DaemonRecord,
    settings: DaemonSettings,
    *,
    answered: Collection[str],
    now_us: int,
    handed_over: Collection[str] = (),
    order: Callable[[SessionRow], Any] = oldest_first,
) -> DaemonPlan:
    """Oldest first, or in another order, at most so many at work at once, and never two in one folder. A goal
    that sleeps takes nobody's place; when it wakes it goes on, whatever runs by then."""
    wanted = [
        row
        for row in rows
        if row.id not in record.runs
        and (row.id in handed_over or is_wanted(row, settings, answered, record.interrupted))
    ]
    busy = {Path(row.workspace) for row in rows if row.id in record.runs or row.goal_state == "running"}
    asleep = sum(row.id in record.runs and row.is_waiting for row in rows)
    free = settings.max_running - (len(record.runs) - asleep)
    is_full = False
    resume: list[SessionRow] = []
    left_alone: dict[str, str] = {}
    retries: list[int] = []
    for row in sorted(wanted, key=order):
        trouble = record.troubles.get(row.id)
        if why := _why_left_alone(row, trouble, settings, now_us):
            left_alone[row.id] = why
        elif trouble is not None and trouble.retry_us > now_us:
            retries.append(trouble.retry_us)
        elif free > len(resume) and not any(is_overlapping(Path(row.workspace), one) for one in busy):
            resume.append(row)
            busy.add(Path(row.workspace))
        else:
            is_full = True
    return DaemonPlan(tuple(resume), left_alone, min(retries, default=None), is_full)


def after_run(
    run: DaemonRun,
    row: SessionRow,
    before: Trouble | None,
    settings: DaemonSettings,
    *,
    code: int | None,
    now_us: int,
    detail: str,
) -> Trouble | None:
    """What to remember of a process that ended: nothing, unless its work was to go on. One that finished an
    iteration counts as the first, and one that found its folder or its journal taken does not count."""
    if (row.goal_state if run.is_goal else row.state) not in ("running", "interrupted", "crashed"):
        return None
    if code == _TAKEN:
        crashes = before.crashes if before else 0
        return Trouble(crashes=crashes, at_us=now_us, retry_us=now_us + _TAKEN_WAIT_US, detail=detail)
    is_further = row.iterations > run.iterations + 1
    crashes = 1 if before is None or is_further else before.crashes + 1
    wait_us = int(settings.crash_wait_s * 1e6) * _BACKOFF ** (crashes - 1)
    return Trouble(crashes=crashes, at_us=now_us, retry_us=now_us + wait_us, detail=detail)


def what_to_do(
    due: Due, last: SessionRow | None, left_alone: Collection[str]
) -> tuple[Literal["start", "skipped", "missed"], str]:
    """Whether a schedule's time begins a goal, and why not. Nobody works on
    sessions that are `left_alone`."""
    if due.how == "missed":
        return "missed", f"{plural(due.missed, 'time')} passed while nothing ran that begins it"
    working = last if last is not None and last.goal_state in ("running", "interrupted") else None
    if working is not None and working.id not in left_alone:
        return "skipped", f"{working.id}, which it began before, is still at work"
    return (
        "start",
        f"{plural(due.missed, 'time')} before it passed while nothing ran that begins it"
        if due.missed
        else "",
    )


def is_interrupted(row: SessionRow) -> bool:
    """Whether work was to go on when its process ended in order."""
    return (row.goal_state if row.goal else row.state) == "interrupted"


def is_wanted(
    row: SessionRow, settings: DaemonSettings, answered: Collection[str], interrupted: Collection[str]
) -> bool:
    """Whether there is work to go on with. `answered` are those whose question was answered, or whose time
    has come; `interrupted` those whose turn was ended only because the process had to end."""
    if row.goal:
        return is_interrupted(row) or (row.goal_state == "blocked" and row.id in answered)
    if row.agent:
        return False  # its parent goes on with it
    is_left = row.id in interrupted and is_interrupted(row)
    is_woken = row.id in answered and row.state in ("blocked", "waiting")
    return settings.sessions and (row.state == "crashed" or is_left or is_woken)


def _why_left_alone(row: SessionRow, trouble: Trouble | None, settings: DaemonSettings, now_us: int) -> str:
    if trouble is not None and trouble.crashes >= settings.max_crashes:
        return (
            f"its process ended {plural(trouble.crashes, 'time')} without progress: {trouble.detail}".rstrip(
                ": "
            )
        )
    if now_us - row.updated_us > settings.resume_within_days * _DAY_US:
        return f"it was interrupted more than {settings.resume_within_days:g} days ago"
    return ""

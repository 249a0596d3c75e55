"""Goals that begin again and again: what a person scheduled, and which of it is due. Deciding is pure.

Schedules are kept in one readable file that is replaced whole. Each says who gave it, and with which mode and
limits its goals run: that consent is the person's, and nothing that runs later widens it.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import Literal

import msgspec

from mainspring.disk.formats import refuse_newer_json
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import ConfigError, UsageError
from mainspring.events import Origin
from mainspring.events.moments import date_of
from mainspring.goals.cron import Cron, next_after, parse_cron

FILE = "schedules.json"
GRACE_S = 24 * 3600.0
_FORMAT = 4
ON_TIME_S = 300.0
_MOST_COUNTED = 100
_BACK = (timedelta(minutes=10), timedelta(hours=6), timedelta(days=8), timedelta(days=3000))


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`goal` is the text itself, also when it was read from a file. `arguments` are the options of `goal
    start` as they were given; `mode` and `max_cost_usd` what they came to. `grace_s` is how late a run that
    nobody was there for may still begin; zero is never. `origin` is who scheduled it, to a team's policy.
    With a `queue` workers of it begin the goals and work on them, those that have its `labels`."""

    cron: str
    goal: str
    folder: str
    id: str = ""
    arguments: tuple[str, ...] = ()
    mode: str = ""
    max_cost_usd: float | None = None
    grace_s: float = GRACE_S
    by: str = ""
    origin: Origin | None = None
    scheduled_us: int = 0
    queue: str = ""
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How a goal's journal names what began it."""
        return f"schedule {self.id}"


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file; its version 1 was the list alone."""

    schedules: tuple[Schedule, ...]
    format_version: int = _FORMAT


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A time that has come since a schedule was last looked at. `missed` times came before it with nobody
    there, or are too old to be caught up with."""

    at_us: int
    how: Literal["on time", "late", "missed"]
    missed: int = 0


class Schedules:
    """The schedules of one home, or of all machines that share these files."""

    def __init__(self, files: SharedFiles) -> None:
        self._files = files

    def all(self) -> tuple[Schedule, ...]:
        try:
            return self._decoded(self._files.read(FILE))
        except OSError as error:
            raise self._unreadable(error) from error

    def find(self, prefix: str) -> Schedule:
        found = [schedule for schedule in self.all() if prefix and schedule.id.startswith(prefix)]
        if len(found) != 1:
            raise UsageError(
                f"{'Several schedules begin' if found else 'No schedule begins'} with {prefix!r}.",
                remedy="mainspring goal schedules lists them.",
            )
        return found[0]

    def add(self, schedule: Schedule) -> Schedule:
        """Keeps a schedule, and gives it an id."""
        kept = msgspec.structs.replace(schedule, id=secrets.token_hex(3))
        self._change(lambda before: (*(each for each in before if each.id != kept.id), kept))
        return kept

    def remove(self, schedule: Schedule) -> None:
        self._change(lambda before: tuple(each for each in before if each.id != schedule.id))

    def _change(self, change: Callable[[tuple[Schedule, ...]], tuple[Schedule, ...]]) -> None:
        def changed(data: bytes | None) -> bytes:
            content = _Content(change(self._decoded(data)))
            return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"

        self._files.change(FILE, changed)

    def _decoded(self, data: bytes | None) -> tuple[Schedule, ...]:
        if data is None:
            return ()
        refuse_newer_json(self._files.shown(FILE), data, _FORMAT)
        try:
            content = msgspec.json.decode(data, type=tuple[Schedule, ...] | _Content)
            found = content.schedules if isinstance(content, _Content) else content
            for schedule in found:
                parse_cron(schedule.cron)
        except (msgspec.MsgspecError, UsageError) as error:
            raise self._unreadable(error) from error
        return found

    def _unreadable(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"The schedules in {self._files.shown(FILE)} cannot be read: {error}",
            remedy="Correct the file, or delete it.",
        )


def next_us(schedule: Schedule, after_us: int, zone: tzinfo) -> int | None:
    """When a schedule comes next."""
    found = next_after(parse_cron(schedule.cron), _moment(after_us), zone)
    return None if found is None else _us(found)


def due(schedule: Schedule, handled_us: int, now_us: int, zone: tzinfo) -> Due | None:
    """What has come since the last time that was handled: the newest that may still begin, else that some
    were missed. A schedule is never due for times before it was made."""
    cron, now = parse_cron(schedule.cron), _moment(now_us)
    since = _moment(max(handled_us, schedule.scheduled_us))
    if not (times := list(islice(_times(cron, since, now, zone), _MOST_COUNTED + 1))):
        return None
    newest = _newest(cron, since, now, zone) or times[-1]
    missed = min(len(times), _MOST_COUNTED)
    late_s = (now - newest).total_seconds()
    if late_s <= ON_TIME_S:
        return Due(at_us=_us(newest), how="on time", missed=missed - 1)
    if late_s <= schedule.grace_s:
        return Due(at_us=_us(newest), how="late", missed=missed - 1)
    return Due(at_us=_us(newest), how="missed", missed=missed)


def _newest(cron: Cron, since: datetime, now: datetime, zone: tzinfo) -> datetime | None:
    """The last of the times, found from the end: there may be very many."""
    for back in _BACK:
        for newest in deque(_times(cron, max(since, now - back), now, zone), maxlen=1):
            return newest
    return None


def _times(cron: Cron, since: datetime, now: datetime, zone: tzinfo) -> Iterator[datetime]:
    following = next_after(cron, since, zone)
    while following is not None and following <= now:
        yield following
        following = next_after(cron, following, zone)


def _moment(time_us: int) -> datetime:
    return date_of(time_us)


def _us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000

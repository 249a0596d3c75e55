"""The schedules of a queue as Temporal's own: it says when; what begins then, once each time, is our store's.

A schedule stands in Temporal under its id, for whoever pauses it or wants a run now, as long as it is in the
store. Each of its times is a short workflow, in which one worker begins the goal, which is a workflow itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta, tzinfo
from pathlib import Path

from temporalio import activity
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
)
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from mainspring.daemon.scheduled import QueuedGoals
from mainspring.daemon.temporal import TemporalServer, TemporalUnavailable
from mainspring.daemon.temporal_workflow import BEGIN, SCHEDULED, ScheduleWorkflow
from mainspring.errors import JournalError, UsageError
from mainspring.goals import schedules
from mainspring.goals.cron import parse_cron

_CLOCK = Path("/etc/localtime")
_AGAIN = timedelta(seconds=2)
_LOOK_S = 10.0
_WITHIN = timedelta(seconds=5)


class TemporalSchedules:
    """Those that `scheduled` knows, by the clock of a zone."""

    def __init__(
        self, server: TemporalServer, scheduled: QueuedGoals, zone: tzinfo, say: Callable[[str], None]
    ) -> None:
        self._server, self._scheduled, self._say = server, scheduled, say
        self._zone = _name(zone)
        self._task_queue = f"schedules of {scheduled.queue}"
        self._kept: set[str] = set()
        self._problem = ""

    async def keep(self) -> None:
        """Has Temporal keep what is scheduled, and begins what it says, until it is cancelled."""
        client = await self._server.client()
        async with Worker(
            client, task_queue=self._task_queue, workflows=[ScheduleWorkflow], activities=[self.begin]
        ):
            while True:
                try:
                    found = await asyncio.to_thread(self._scheduled.all)
                    if not self._scheduled.problem:
                        await self._keep_those(client, found)
                    self._problem = ""
                except (RPCError, TemporalUnavailable) as error:
                    if self._problem != error.message:
                        self._say(f"Temporal: {error.message.removesuffix('.')}; schedules are tried again")
                    self._problem = error.message
                except JournalError:
                    pass  # the worker, which looks more often, says so
                await asyncio.sleep(_LOOK_S)

    async def _keep_those(self, client: Client, found: Iterable[schedules.Schedule]) -> None:
        wanted = {each.id: each for each in found}
        for name in self._kept - wanted.keys():
            try:
                await client.get_schedule_handle(_id(name)).delete(rpc_timeout=_WITHIN)
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise
            self._kept.discard(name)
        for name in wanted.keys() - self._kept:
            schedule = self._schedule(wanted[name])
            with suppress(ScheduleAlreadyRunningError):  # by another worker; it is never changed
                await client.create_schedule(_id(name), schedule, rpc_timeout=_WITHIN)
            self._kept.add(name)

    def _schedule(self, given: schedules.Schedule) -> Schedule:
        action = ScheduleActionStartWorkflow(
            SCHEDULED, given.id, id=_id(given.id), task_queue=self._task_queue
        )
        catch_up = timedelta(seconds=max(given.grace_s, schedules.ON_TIME_S))
        policy = SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL, catchup_window=catch_up)
        spec = ScheduleSpec(calendars=calendars(given.cron), time_zone_name=self._zone)
        return Schedule(action=action, spec=spec, policy=policy)

    @activity.defn(name=BEGIN)
    async def begin(self, schedule: str, at_us: int) -> str:
        """Begins the goal of a schedule for a time, unless it was; gives what became of it."""
        if became := await self._scheduled.begin(schedule, at_us):
            return became
        raise ApplicationError(
            "not for this worker now", next_retry_delay=_AGAIN, category=ApplicationErrorCategory.BENIGN
        )


def calendars(cron: str) -> list[ScheduleCalendarSpec]:
    """The times of a schedule in Temporal's terms, of which one is enough: there both days must fit."""
    found = parse_cron(cron)
    by_day, by_weekday = _ranges(found.days), _ranges(found.weekdays)
    always = ScheduleCalendarSpec()
    days = [(by_day, always.day_of_week), (always.day_of_month, by_weekday)]
    return [
        ScheduleCalendarSpec(
            minute=_ranges(found.minutes),
            hour=_ranges(found.hours),
            day_of_month=day,
            month=_ranges(found.months),
            day_of_week=weekday,
        )
        for day, weekday in (days if found.is_either else [(by_day, by_weekday)])
    ]


def _name(zone: tzinfo) -> str:
    """The name under which Temporal knows it."""
    name = getattr(zone, "key", "UTC")
    if name == "local" and not (name := str(_CLOCK.resolve()).partition("/zoneinfo/")[2]):
        raise UsageError(
            "The time zone of this machine has no name, by which Temporal could know it.",
            remedy="Name it in TZ, as in TZ=Europe/Berlin.",
        )
    return name


def _ranges(numbers: Iterable[int]) -> list[ScheduleRange]:
    return [ScheduleRange(number, number) for number in sorted(numbers)]


def _id(schedule: str) -> str:
    return f"mainspring-schedule-{schedule}"

"""The schedules of a queue as Temporal's own: it says when; what begins then, once each time, is our store's.

A schedule stands in Temporal under its id, for whoever pauses it or wants a run now, as long as it is in the
store. Each of its times is a short workflow, in which one worker begins the goal, which is a workflow itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta, tzinfo
from functools import partial

from temporalio import activity
from temporalio import client as temporal
from temporalio.worker import Worker

from mainspring.daemon.scheduled import QueuedGoals
from mainspring.daemon.temporal import TemporalServer, look_again
from mainspring.daemon.temporal_workflow import BEGIN, SCHEDULED, ScheduleWorkflow
from mainspring.errors import JournalError
from mainspring.goals.cron import single_days
from mainspring.goals.schedules import ON_TIME_S, Schedule
from mainspring.system import zone_name

_LOOK_S = 10.0


class TemporalSchedules:
    """Those that `scheduled` knows, by the clock of a zone."""

    def __init__(self, server: TemporalServer, scheduled: QueuedGoals, zone: tzinfo) -> None:
        self._server, self._scheduled, self._zone = server, scheduled, zone_name(zone)
        self._queue = f"schedules of {scheduled.queue}"
        self._kept: set[str] = set()

    async def keep(self) -> None:
        """Has Temporal keep what is scheduled, and begins what it says, until it is cancelled."""
        client = await self._server.client()
        does = [self.begin]
        async with Worker(client, task_queue=self._queue, workflows=[ScheduleWorkflow], activities=does):
            while True:
                with suppress(JournalError):  # the worker, which looks more often, says so
                    found = await asyncio.to_thread(self._scheduled.all)
                    if not self._scheduled.problem:
                        await self._keep_those(found)
                await asyncio.sleep(_LOOK_S)

    async def _keep_those(self, found: Iterable[Schedule]) -> None:
        wanted = {each.id: each for each in found}
        for name in self._kept - wanted.keys():
            if await self._server.tried(partial(_delete, name)):
                self._kept.discard(name)
        for name in wanted.keys() - self._kept:
            if await self._server.tried(partial(self._create, wanted[name])):
                self._kept.add(name)

    async def _create(self, given: Schedule, client: temporal.Client) -> None:
        name, late_s = _id(given.id), max(given.grace_s, ON_TIME_S)
        begins = temporal.ScheduleActionStartWorkflow(SCHEDULED, given.id, id=name, task_queue=self._queue)
        spec = temporal.ScheduleSpec(cron_expressions=single_days(given.cron), time_zone_name=self._zone)
        each = temporal.ScheduleOverlapPolicy.ALLOW_ALL
        policy = temporal.SchedulePolicy(overlap=each, catchup_window=timedelta(seconds=late_s))
        await client.create_schedule(name, temporal.Schedule(begins, spec, policy))

    @activity.defn(name=BEGIN)
    async def begin(self, schedule: str, at_us: int) -> str:
        """Begins the goal of a schedule for a time, unless it was; gives what became of it."""
        if became := await self._scheduled.begin(schedule, at_us):
            return became
        raise look_again("not for this worker now")


async def _delete(schedule: str, client: temporal.Client) -> None:
    await client.get_schedule_handle(_id(schedule)).delete()


def _id(schedule: str) -> str:
    return f"mainspring-schedule-{schedule}"

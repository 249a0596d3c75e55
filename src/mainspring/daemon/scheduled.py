"""Goals that begin by the clock: whose time has come, and what became of it.

Several daemons and workers may look at the same schedules; each time is handled by one of them. When one is
killed while it begins a goal, whoever looks next finds out how far it came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.catalog import QueuedSession, SessionRow, Sessions, WorkerRow, WorkQueue
from mainspring.daemon.decide import what_to_do
from mainspring.daemon.files import Handled, HandledSchedules
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import JournalError, MainspringError
from mainspring.goals.fold import load_goal
from mainspring.goals.schedules import Due, Schedule, Schedules, due, next_us
from mainspring.sandbox.detached import run_to_end
from mainspring.settings import FACE, Config

_BEGIN_WITHIN_S = 120.0
_DETAIL = 300
_LOOK_S = 10.0
_GONE = "unscheduled"


class Coming(msgspec.Struct, frozen=True):
    """A schedule whose time has come, and what became of the time before."""

    schedule: Schedule
    due: Due
    before: Handled | None

    @property
    def session(self) -> str:
        """The session that it began before."""
        return self.before.session if self.before else ""


class ScheduledGoals:
    """`by` names who looks, among all that share `files`; `before` is what an earlier version wrote down
    elsewhere. They are those of one queue, or of none."""

    def __init__(
        self,
        config: Config,
        sessions: Sessions,
        files: SharedFiles,
        by: str,
        say: Callable[[str], None],
        *,
        before: Mapping[str, Handled] = {},
        queue: str = "",
    ) -> None:
        self.queue = queue
        self._config, self._sessions, self._say = config, sessions, say
        self._schedules, self._handled = Schedules(files), HandledSchedules(files, by, before)
        self._known: tuple[Schedule, ...] = ()
        self._elsewhere: set[str] = set()
        self.problem = ""

    def all(self) -> tuple[Schedule, ...]:
        """Those that there are now; none while they cannot be read, which is said."""
        try:
            found = self._schedules.all()
        except JournalError:
            raise
        except MainspringError as error:
            if self.problem != str(error):
                self._say(f"problem: {error}")
            self.problem, found = str(error), ()
        else:
            self.problem = ""
            self._handled.forget({each.id for each in self._known} - {each.id for each in found})
        self._known = tuple(each for each in found if each.queue == self.queue)
        return self._known

    def come(self, now_us: int) -> list[Coming]:
        """Those whose time has come, and that can begin on this machine."""
        self.all()
        handled = self._handled.all() if self._known else {}
        return [
            Coming(each, found, handled.get(each.id))
            for each in self._known
            if (found := self._due(each, handled.get(each.id), now_us)) and self._is_here(each)
        ]

    def next_times(self, now_us: int) -> list[int]:
        """When those that were known at the last look come next."""
        zone = self._config.zone
        return [at for each in self._known if (at := next_us(each, now_us, zone)) is not None]

    async def handle(
        self, coming: Coming, rows: Mapping[str, SessionRow], left_alone: Collection[str]
    ) -> None:
        """Begins a goal, or says why not. `rows` are the sessions that it could have begun before, of which
        nobody works on those that are `left_alone`."""
        schedule, found, before = coming.schedule, coming.due, coming.before
        outcome, detail = what_to_do(found, rows.get(coming.session), left_alone)
        now_us = _now_us()
        handled = Handled(
            due_us=found.at_us,
            at_us=now_us,
            outcome="starting",
            how=found.how,
            detail=detail,
            missed=found.missed,
        )
        is_again = before is not None and before.outcome == "starting"
        if not self._handled.claim(schedule.id, handled):
            return  # another one was quicker
        if outcome == "start":
            session = await self._begun(schedule, found.at_us, rows) if is_again else ""
            handled = await self._begin(schedule, handled, session)
        else:
            handled = msgspec.structs.replace(handled, outcome=outcome, session=coming.session)
        self._handled.keep(schedule.id, handled)
        said = " ".join(filter(None, (handled.session, handled.how, handled.detail)))
        self._say(f"{schedule.name}: {handled.outcome} {said}".rstrip())

    def _is_here(self, schedule: Schedule) -> bool:
        """Whether its goals can begin on this machine; what machines share is left to those that have it."""
        if not self._config.store_url or Path(schedule.folder).is_dir():
            return True
        if schedule.id not in self._elsewhere:
            self._elsewhere.add(schedule.id)
            self._say(f"{schedule.name}: {schedule.folder} is not on this machine, left to other machines")
        return False

    def _due(self, schedule: Schedule, handled: Handled | None, now_us: int) -> Due | None:
        if handled is not None and handled.outcome == "starting":
            if not self._handled.is_mine(handled, now_us):
                return None
            # Who began it ended in between; `handle` finds out how far it came.
            return Due(at_us=handled.due_us, how="late", missed=handled.missed)
        return due(schedule, handled.due_us if handled else 0, now_us, self._config.zone)

    async def _begin(self, schedule: Schedule, handled: Handled, session: str) -> Handled:
        if session:
            return msgspec.structs.replace(handled, outcome="started", session=session)
        ended = await asyncio.to_thread(
            run_to_end,
            ["goal", "fire", schedule.id],
            environment={**self._config.environment, FACE: "daemon"},
            timeout_s=_BEGIN_WITHIN_S,
        )
        if ended.exit_code:
            detail = ended.errors.strip()[-_DETAIL:]
            return msgspec.structs.replace(handled, outcome="failed", detail=detail)
        return msgspec.structs.replace(handled, outcome="started", session=ended.output.strip())

    async def _begun(self, schedule: Schedule, since_us: int, rows: Mapping[str, SessionRow]) -> str:
        """The session that a schedule began since then; empty when there is none."""
        for row in rows.values():
            if row.goal and row.started_us >= since_us:
                goal = await load_goal(self._sessions, row.id)
                if goal.first.by == schedule.name:
                    return row.id
        return ""


class QueuedGoals(ScheduledGoals):
    """The same for a worker: those of its queue, whose goals are `work` for all of its workers."""

    def __init__(
        self,
        config: Config,
        sessions: Sessions,
        files: SharedFiles,
        me: WorkerRow,
        say: Callable[[str], None],
        work: WorkQueue,
    ) -> None:
        super().__init__(config, sessions, files, me.id, say, queue=me.queue)
        self._work = work

    async def keep(self) -> None:
        """Begins the goals of a queue when their time has come, until it is cancelled."""
        while True:
            now_us = _now_us()
            with suppress(JournalError):  # the worker, which looks more often, says so
                for coming in await asyncio.to_thread(self.come, now_us):
                    await self._handle_queued(coming)
            soon_s = [max(0.0, (at_us - _now_us()) / 1e6) for at_us in self.next_times(now_us)]
            await asyncio.sleep(min([_LOOK_S, *soon_s]))

    async def begin(self, name: str, at_us: int) -> str:
        """What became of a time of which somebody else says that it has come; empty while that is not known,
        and another look is wanted."""
        schedule = next((each for each in await asyncio.to_thread(self.all) if each.id == name), None)
        if schedule is None:
            return _GONE
        if not self._is_here(schedule):
            return ""
        before = self._handled.all().get(name)
        found = self._due(schedule, before, _now_us())
        if found is None and (before is None or before.due_us < at_us):  # somebody wants it now
            found = Due(at_us=at_us, how="on time")
        if found is not None:
            await self._handle_queued(Coming(schedule, found, before))
            before = self._handled.all().get(name)
        if before is None or before.due_us < at_us or before.outcome == "starting":
            return ""
        return f"{before.outcome} {before.session or before.detail}".rstrip()

    async def _handle_queued(self, coming: Coming) -> None:
        rows = {row.id: row for row in await self._sessions.rows()}
        set_aside = [item.session for item in await self._work.items() if item.is_set_aside]
        await self.handle(coming, rows, set_aside)

    async def _begin(self, schedule: Schedule, handled: Handled, session: str) -> Handled:
        if session:  # whoever began it may have ended before workers were told
            person = schedule.origin.user if schedule.origin else ""
            await self._work.put(
                QueuedSession(session=session, queue=schedule.queue, labels=schedule.labels, person=person)
            )
        return await super()._begin(schedule, handled, session)


def _now_us() -> int:
    return time.time_ns() // 1000

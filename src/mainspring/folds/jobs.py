"""The jobs of a session on other machines, and its uses of machines, folded from its journal."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.events import (
    KEEPS_CALLS_OPEN,
    GoalEnded,
    GoalSet,
    JobCancelled,
    JobCollected,
    JobEnded,
    JobPlanned,
    JobSubmitted,
    MachineChosen,
    MachineEnded,
    MachineStarted,
    TurnEnded,
)

JobsTold = (
    JobPlanned
    | JobSubmitted
    | JobCancelled
    | JobEnded
    | JobCollected
    | TurnEnded
    | GoalSet
    | GoalEnded
    | MachineChosen
    | MachineStarted
    | MachineEnded
)


class RecordedJob(msgspec.Struct, frozen=True):
    """`is_unwanted` says that what it was for is over, so that it is to be cancelled."""

    planned: JobPlanned
    submitted: JobSubmitted | None = None
    ended: JobEnded | None = None
    collected: JobCollected | None = None
    is_cancelled: bool = False
    is_unwanted: bool = False


class Jobs(msgspec.Struct, frozen=True):
    """`known` has every job by its handle, in the order in which they were planned. `machine` is where
    commands run, empty for here; `uses` has the uses of machines whose end is not on record, of `use_count`
    in all."""

    known: Mapping[str, RecordedJob] = {}
    has_goal: bool = False
    machine: str = ""
    uses: Mapping[str, MachineStarted] = {}
    use_count: int = 0

    @property
    def open(self) -> tuple[RecordedJob, ...]:
        return tuple(job for job in self.known.values() if job.ended is None)

    @property
    def unwanted(self) -> tuple[RecordedJob, ...]:
        return tuple(job for job in self.open if job.is_unwanted)

    def of_call(self, call: str) -> RecordedJob | None:
        return next((job for job in self.known.values() if job.planned.call == call), None)

    def after(self, event: JobsTold) -> Jobs:
        """The jobs once this was recorded. A turn takes its jobs with it when it ends, unless it goes on when
        something that it waits for has come; a goal when it is done or stopped."""
        match event:
            case JobPlanned():
                return self._with(event.job, RecordedJob(event))
            case JobSubmitted():
                return self._changed(event.job, submitted=event)
            case JobCancelled():
                return self._changed(event.job, is_cancelled=True)
            case JobEnded():
                return self._changed(event.job, ended=event)
            case JobCollected():
                return self._changed(event.job, collected=event)
            case MachineChosen() | MachineStarted() | MachineEnded():
                return self._after_machine(event)
            case GoalSet():
                return msgspec.structs.replace(self, has_goal=True)
            case GoalEnded():
                is_over = event.ending in ("done", "stopped")
                return msgspec.structs.replace(self._over(), has_goal=False) if is_over else self
            case TurnEnded():
                is_over = event.ending not in KEEPS_CALLS_OPEN and not self.has_goal
                return self._over() if is_over else self

    def _after_machine(self, event: MachineChosen | MachineStarted | MachineEnded) -> Jobs:
        replace = msgspec.structs.replace
        match event:
            case MachineChosen():
                return replace(self, machine=event.machine)
            case MachineStarted():
                return replace(self, uses={**self.uses, event.use: event}, use_count=self.use_count + 1)
            case MachineEnded():
                return replace(self, uses={use: each for use, each in self.uses.items() if use != event.use})

    def _over(self) -> Jobs:
        if not self.open:
            return self
        known = {
            handle: job
            if job.ended or job.planned.is_staying
            else msgspec.structs.replace(job, is_unwanted=True)
            for handle, job in self.known.items()
        }
        return msgspec.structs.replace(self, known=known)

    def _changed(self, handle: str, **changes: object) -> Jobs:
        job = self.known.get(handle)
        return self._with(handle, msgspec.structs.replace(job, **changes)) if job else self

    def _with(self, handle: str, job: RecordedJob) -> Jobs:
        return msgspec.structs.replace(self, known={**self.known, handle: job})

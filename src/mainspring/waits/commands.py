"""What says when it is over: a command of the agent's in its sandbox, jobs of the session on other machines,
and those of a cluster's queue."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime

from mainspring.errors import SandboxError, UsageError
from mainspring.events import OnCommand, OnJob, OnSlurm
from mainspring.jobs.slurm_states import ENDED_WORDS, slurm_word
from mainspring.patterns import lazy_pattern
from mainspring.sandbox import Command, Sandbox
from mainspring.waits.decide import Observation
from mainspring.waits.reach import WaitContext
from mainspring.waits.watch import ConditionWatch, Growing, last_lines

JOB = lazy_pattern(r"[1-9]\d{0,17}(_\d{1,9}|\+\d{1,9})?", re.ASCII)
_UNKNOWN_TIMES = 3
_TIMEOUT_S = 30.0
_KEPT_BYTES = 256 * 1024


def watch_elsewhere(condition: OnCommand | OnJob | OnSlurm, waiting: WaitContext) -> ConditionWatch:
    match condition:
        case OnCommand():
            return CommandWatch(condition, waiting)
        case OnJob():
            return JobWatch(condition, waiting)
        case OnSlurm():
            return SlurmWatch(condition, waiting)


class CommandWatch(ConditionWatch):
    def __init__(self, condition: OnCommand, waiting: WaitContext) -> None:
        if not condition.command.strip():
            raise UsageError("There is no command to wait for: it is empty.")
        super().__init__(condition)
        pace = waiting.reach.pace
        self._waiting = waiting
        self._every_s = max(condition.every_s, pace.least_command_s)
        self._command = Command(
            argv=("bash", "-c", condition.command),
            cwd=waiting.state.workspace,
            timeout_s=pace.command_timeout_s,
            max_output_bytes=_KEPT_BYTES,
        )
        self._last = "it has not run yet"

    async def look(self) -> Observation | None:
        sandbox = await self._waiting.sandbox()
        try:
            finished = await sandbox.run(self._command)
        except SandboxError as error:
            return Observation(f"The command could not be run: {error.message}", is_lost=True)
        shown = last_lines(finished.stdout + finished.stderr)
        self._last = f"exit code {finished.exit_code}{f', {finished.stopped}' if finished.stopped else ''}"
        output = f"; its output:\n{shown}" if shown else ""
        if finished.exit_code == 0 and not finished.stopped:
            return Observation(f"The command succeeded{output}")
        self._last += output
        return None

    async def rest(self) -> None:
        await asyncio.sleep(self._every_s)

    def so_far(self) -> str:
        return f"The command does not succeed: {self._last}"


class JobWatch(ConditionWatch):
    """A job of this session on another machine. Three looks in a row without an answer are one too."""

    def __init__(self, condition: OnJob, waiting: WaitContext) -> None:
        if waiting.reach.look_at_job is None or condition.job not in waiting.state.jobs.known:
            raise UsageError(f"This session has no job {condition.job!r} to wait for.")
        super().__init__(condition)
        self._job = condition.job
        self._look = waiting.reach.look_at_job
        self._pause = Growing(waiting.reach.pace.job_s)
        self._unknown = 0
        self._last = f"{condition.job} was not asked for yet"

    async def look(self) -> Observation | None:
        seen = await self._look(self._job)
        self._last = seen.text
        self._unknown = self._unknown + 1 if seen.is_lost else 0
        if seen.is_ended:
            return Observation(seen.text)
        return Observation(seen.text, is_lost=True) if self._unknown >= _UNKNOWN_TIMES else None

    def so_far(self) -> str:
        return self._last


class SlurmWatch(ConditionWatch):
    """A job is asked for in the accounts first, which know its end, and then in the queue, which knows it
    while the accounts are silent. Three silences of both in a row are an answer too. A state that we do not
    know is no end."""

    def __init__(self, condition: OnSlurm, waiting: WaitContext) -> None:
        if not JOB.fullmatch(condition.job):
            raise UsageError(
                f"{condition.job!r} cannot be a Slurm job.", remedy="Ids look like 123, 123_4 or 123+1."
            )
        if waiting.reach.outside is None:
            raise UsageError("This session cannot wait for cluster jobs.")
        super().__init__(condition)
        self._job = condition.job
        self._choose = waiting.reach.outside
        self._outside: Sandbox | None = None
        self._cwd = waiting.state.workspace
        self._pause = Growing(waiting.reach.pace.slurm_s)
        self._unknown = 0
        self._last = "not asked yet"

    async def look(self) -> Observation | None:
        found = await self._in_accounts() or await self._in_queue()
        if found:
            self._unknown = 0
            states = {state for state, _, _ in found}
            self._last = ", ".join(sorted(states))
            return _job_ended(self._job, found) if states <= ENDED_WORDS else None
        self._unknown += 1
        self._last = f"neither sacct nor squeue knows it ({self._unknown} times in a row)"
        if self._unknown < _UNKNOWN_TIMES:
            return None
        return Observation(f"Slurm job {self._job}: {self._last}", is_lost=True)

    async def close(self) -> None:
        if self._outside is not None:
            await self._outside.close()

    def so_far(self) -> str:
        return f"Slurm job {self._job}: {self._last}"

    async def _in_accounts(self) -> list[tuple[str, str, str]]:
        done = await self._ask("sacct", "-X", "-n", "-P", "-j", self._job, "-o", "State,ExitCode,End")
        rows = [line.split("|") for line in done.splitlines() if line.strip()]
        return [(slurm_word(row[0]), row[1], row[2]) for row in rows if len(row) == 3 and slurm_word(row[0])]

    async def _in_queue(self) -> list[tuple[str, str, str]]:
        done = await self._ask("squeue", "-h", "-j", self._job, "-o", "%T")
        return [(slurm_word(line), "", "") for line in done.splitlines() if slurm_word(line)]

    async def _ask(self, *argv: str) -> str:
        """What a command says; nothing when it fails or is not there."""
        command = Command(argv=argv, cwd=self._cwd, timeout_s=_TIMEOUT_S, max_output_bytes=_KEPT_BYTES)
        try:
            self._outside = self._outside or await self._choose()
            finished = await self._outside.run(command)
        except SandboxError:
            return ""
        if finished.exit_code != 0 or finished.stopped:
            return ""
        return finished.stdout.decode("utf-8", errors="replace")


def _job_ended(job: str, found: list[tuple[str, str, str]]) -> Observation:
    states = ", ".join(dict.fromkeys(state for state, _, _ in found))
    codes = ", ".join(dict.fromkeys(code for _, code, _ in found if code))
    ends = [at_us for _, _, end in found if (at_us := _end_us(end)) is not None]
    exits = f", exit code {codes}" if codes else ""
    return Observation(f"Slurm job {job} ended: {states}{exits}", max(ends, default=None))


def _end_us(text: str) -> int | None:
    """Slurm tells times of its own machine's zone, without naming it."""
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1e6)
    except ValueError:
        return None

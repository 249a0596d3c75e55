"""The jobs of a session on other machines: planned on record, then submitted, then followed to their end.

What is on record decides: a job that was planned and not submitted is looked for by its name before it is
submitted, so it runs once. The money for one is that of its call, and settled with its end.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainspring.app.job_files import MAX_FILES, PackedFiles, pack, relative, unpack
from mainspring.disk.log import log
from mainspring.errors import JobHostError, MainspringError, UsageError
from mainspring.events import (
    ArtifactSaved,
    JobCancelled,
    JobCollected,
    JobEnded,
    JobPlanned,
    JobState,
    JobSubmitted,
    StatusDelta,
)
from mainspring.folds.jobs import RecordedJob
from mainspring.jobs import JobHost, JobRef, JobSpec, JobStatus
from mainspring.jobs.hosts import open_host
from mainspring.jobs.settings import JobHostSettings
from mainspring.settings import Config
from mainspring.tools import CallContext, ToolFailed
from mainspring.tools.files import write_file
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import settle_call
from mainspring.waits.reach import JobLook

LOG_BYTES = 256 * 1024
"""What is kept of the end of a job's log."""
_MAX_ARTIFACT = 16_000_000


class SessionJobs:
    """`attach` comes before anything else."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._runtime: Runtime | None = None
        self._hosts: dict[str, JobHost] = {}
        self._changing = asyncio.Lock()

    @property
    def hosts(self) -> dict[str, JobHostSettings]:
        return self._config.settings.jobs

    def attach(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def runtime(self) -> Runtime:
        if self._runtime is None:
            raise UsageError("Nobody can run jobs for this session now.")
        return self._runtime

    def job(self, handle: str) -> RecordedJob:
        known = self.runtime.state.jobs.known
        if handle not in known:
            names = ", ".join(known) or "none"
            raise UsageError(f"There is no job {handle!r}.", remedy=f"Those of this session: {names}.")
        return known[handle]

    def outputs(self, handle: str) -> tuple[str, ...]:
        job = self._runtime.state.jobs.known.get(handle) if self._runtime else None
        return job.planned.outputs if job else ()

    def usd(self, host: str, hardware: str, hours: float) -> float | None:
        """What a job may cost at most; None when its price is unknown."""
        hourly = self._host(host).usd_per_hour(hardware)
        return None if hourly is None else hourly * hours

    async def submit(self, planned: JobPlanned, place: CallContext) -> tuple[RecordedJob, PackedFiles]:
        """Has a job run, once: the call that asks for it again gets the same one. The handle and name of
        `planned` are given here."""
        known = self.runtime.state.jobs.of_call(place.call)
        if known is None:
            known = await self._plan(planned)
        if known.submitted or known.ended:
            return known, PackedFiles()
        plan, handle = known.planned, known.planned.job
        with tempfile.TemporaryDirectory(prefix="mainspring-job-") as scratch:
            archive, packed = Path(scratch, "files.tar"), PackedFiles()
            if plan.files:
                packed = await asyncio.to_thread(pack, place.files, plan.files, archive)
            spec = JobSpec(
                name=plan.name,
                command=planned.command,
                time_limit_s=plan.time_limit_s,
                hardware=plan.hardware,
                files=archive if plan.files else None,
                begin_us=plan.begin_us,
            )
            try:
                submitted = await self._host(plan.host).submit(spec)
            except (JobHostError, UsageError) as error:
                if isinstance(error, UsageError) or error.is_refused:
                    await self._end(known, JobStatus(state="failed", ran_s=0.0, detail=error.message))
                raise
        await self.runtime.record(
            JobSubmitted(job=handle, remote=submitted.remote, was_there=submitted.was_there)
        )
        return self.job(handle), packed

    async def _plan(self, planned: JobPlanned) -> RecordedJob:
        for path in (*planned.files, *planned.outputs):
            relative(path)
        async with self._changing:
            jobs = self.runtime.state.jobs
            handle = f"j{len(jobs.known) + 1}"
            named = f"ms-{self.runtime.state.session}-{handle}"
            await self.runtime.record(msgspec.structs.replace(planned, job=handle, name=named))
        return self.job(handle)

    async def look(self, handle: str) -> JobLook:
        """How a job is; its end is on record afterwards."""
        try:
            job, status = await self.status(handle)
        except JobHostError as error:
            return JobLook(f"{handle}: {error.message}", is_lost=True)
        if job.ended:
            return JobLook(job_line(job), is_ended=True)
        return JobLook(job_line(job, status), is_lost=status.state == "unknown")

    async def status(self, handle: str) -> tuple[RecordedJob, JobStatus]:
        job = self.job(handle)
        if job.ended is None and job.submitted is None:
            job = await self._adopted(job)
        if job.ended or job.submitted is None:
            return job, JobStatus(state=job.ended.state if job.ended else "unknown")
        status = await self._host(job.planned.host).status(_ref(job))
        if status.is_ended:
            await self._end(job, status)
        return self.job(handle), status

    async def logs(self, handle: str, max_bytes: int) -> bytes:
        job = self.job(handle)
        if job.ended and job.ended.log:
            return (await self.runtime.recorder.get_blob(job.ended.log))[-max_bytes:]
        if job.submitted is None:
            job, _ = await self.status(handle)
        return await self._host(job.planned.host).logs(_ref(job), max_bytes) if job.submitted else b""

    async def cancel(self, handle: str, why: str) -> RecordedJob:
        """Ends a job; that this is wanted is on record before its host is asked."""
        job = self.job(handle)
        if job.ended:
            return job
        if not job.is_cancelled:
            await self.runtime.record(JobCancelled(job=handle, why=why))
        if job.submitted is None:
            job = await self._adopted(job)
        if job.submitted and not job.ended:
            await self._host(job.planned.host).cancel(_ref(job))
            job, _ = await self.status(handle)
        return job

    async def collect(self, handle: str, place: CallContext) -> JobCollected:
        """Writes the outputs of a job into the workspace, and keeps them as artifacts."""
        job = self.job(handle)
        outputs = tuple(relative(path) for path in job.planned.outputs)
        if not outputs:
            raise UsageError(f"{handle} was submitted without outputs.", remedy="Its log can be read.")
        written: list[str] = []
        left_out: dict[str, str] = {}
        with tempfile.TemporaryDirectory(prefix="mainspring-job-") as scratch:
            archive = Path(scratch, "outputs.tar")
            missing = await self._host(job.planned.host).fetch(_ref(job), outputs, archive)
            for name, data, mode in unpack(archive, outputs, left_out):
                if len(written) >= MAX_FILES:
                    raise UsageError(f"{handle} made more than {MAX_FILES:,} files; the rest was left.")
                try:
                    await write_file(place, name, data, mode=mode)
                except ToolFailed as error:
                    left_out[name] = str(error)
                    continue
                written.append(name)
                if len(data) <= _MAX_ARTIFACT:
                    blob = await self.runtime.recorder.put_blob(data, "application/octet-stream")
                    await place.record(ArtifactSaved(name=f"{handle}/{name}", blob=blob, source=name))
        left = tuple(f"{name} ({why.rstrip('.')})" for name, why in left_out.items())
        collected = JobCollected(job=handle, files=tuple(written), missing=missing, left_out=left)
        await place.record(collected)
        return collected

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[None]:
        """Cancels jobs whose turn or goal is over, while the session is open and when it is left."""
        task: asyncio.Task[None] | None = None
        if self._config.settings.jobs:
            task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
                await self._cancel_unwanted()
            for host in self._hosts.values():
                await host.close()

    async def _follow(self) -> None:
        await self._cancel_unwanted()
        async for recorded in self.runtime.feed.subscribe(self.runtime.feed.last_seq):
            if recorded.kind in ("TurnEnded", "GoalEnded"):
                await self._cancel_unwanted()

    async def _cancel_unwanted(self) -> None:
        async with self._changing:
            for job in self.runtime.state.jobs.unwanted:
                try:
                    await self.cancel(job.planned.job, "over")
                except (
                    MainspringError
                ) as error:  # it stays open on record, and is tried again when next opened
                    log("job not cancelled", job=job.planned.name, error=error.message)
                    text = f"{job.planned.job} could not be cancelled: {error.message}"
                    self.runtime.show(StatusDelta(text=text))

    async def _adopted(self, job: RecordedJob) -> RecordedJob:
        """A job of which it is not on record whether its host has it."""
        handle, host = job.planned.job, self._host(job.planned.host)
        if remote := await host.find(job.planned.name):
            await self.runtime.record(JobSubmitted(job=handle, remote=remote, was_there=True))
        else:
            state: JobState = "cancelled" if job.is_cancelled else "lost"
            await self._end(job, JobStatus(state=state, ran_s=0.0, detail="it was never submitted"))
        return self.job(handle)

    async def _end(self, job: RecordedJob, status: JobStatus) -> None:
        if self.job(job.planned.job).ended:
            return
        tail = b""
        if job.submitted:
            tail = await self._host(job.planned.host).logs(_ref(job), LOG_BYTES)
        blob = await self.runtime.recorder.put_blob(tail, "text/plain") if tail else None
        usd = self._settled_usd(job.planned, status.ran_s)
        if self.job(job.planned.job).ended:  # another look was faster
            return
        ended = JobEnded(
            job=job.planned.job,
            state=status.state,
            exit_code=status.exit_code,
            ran_s=status.ran_s,
            usd=usd,
            detail=status.detail,
            log=blob,
        )
        kept = [ArtifactSaved(name=f"{job.planned.job}.log", blob=blob)] if blob else []
        await settle_call(self.runtime, job.planned.call, usd, ended, *kept)

    def _settled_usd(self, planned: JobPlanned, ran_s: float | None) -> float | None:
        """What it cost: by the time that it ran, and no more than was set aside."""
        if planned.usd is None or ran_s is None or planned.time_limit_s <= 0:
            return planned.usd
        return min(planned.usd * ran_s / planned.time_limit_s, planned.usd)

    def _host(self, name: str) -> JobHost:
        settings = self.hosts.get(name)
        if settings is None:
            names = ", ".join(self.hosts) or "none"
            raise UsageError(f"There is no job host {name!r}.", remedy=f"Those of [jobs]: {names}.")
        if name not in self._hosts:
            outside = self.runtime.workbench.reach.outside if self._runtime else None
            if outside is None:
                raise UsageError("This session cannot reach other machines.")
            self._hosts[name] = open_host(settings, self._config.key_environment, outside)
        return self._hosts[name]


def _ref(job: RecordedJob) -> JobRef:
    return JobRef(job.planned.name, job.submitted.remote if job.submitted else "")


def job_line(job: RecordedJob, status: JobStatus | None = None) -> str:
    """A job in one line."""
    planned, ended = job.planned, job.ended
    words = [f"{planned.job} on {planned.host}{f' ({planned.hardware})' if planned.hardware else ''}:"]
    if ended:
        words.append(ended.state.replace("_", " "))
        words += [f"with exit code {ended.exit_code}"] if ended.exit_code is not None else []
        words += [f"after {ended.ran_s:.0f} s"] if ended.ran_s is not None else []
        words += [f"for {ended.usd:.2f} USD"] if ended.usd else []
        words += [f"({ended.detail})"] if ended.detail else []
    elif status:
        words.append(status.state)
        words += [f"for {status.ran_s:.0f} s"] if status.ran_s is not None else []
        words += [f"({status.detail})"] if status.detail else []
    else:
        words.append("submitted" if job.submitted else "planned; whether its host has it is unknown")
    return " ".join(words)

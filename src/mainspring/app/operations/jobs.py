"""The jobs of all sessions on other machines: what is on record, and what their hosts say now.

Looking records nothing: the end of a job is recorded by its session, when that next looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import get_args

import msgspec

from mainspring.app.imported import made_elsewhere
from mainspring.app.operations.sessions import journal_of
from mainspring.app.policies import confinement_of, outside
from mainspring.app.records import recording, vault_of
from mainspring.app.session_machine import machine_settings
from mainspring.app.stores import sessions_of
from mainspring.errors import JobHostError, JournalError, JournalOwned, MainspringError, UsageError
from mainspring.events import JobCancelled, JobState, SessionStarted
from mainspring.folds.jobs import Jobs, JobsTold, RecordedJob
from mainspring.jobs import JobHost, JobRef, JobStatus
from mainspring.jobs.hosts import open_host
from mainspring.jobs.machines import RemoteMachine
from mainspring.jobs.shells import HostShell
from mainspring.journal import events_in, last_event
from mainspring.sandbox import Sandbox
from mainspring.settings import Config

LOG_BYTES = 64 * 1024
_CHECK_S = 30.0
_KINDS = tuple(kind.__name__ for kind in get_args(JobsTold))


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a session. `state` is what is on record, or what its host says where that was asked; `usd` is
    what it cost, or may cost at most while it has not ended."""

    session: str
    job: str
    host: str
    state: JobState
    command: str
    hardware: str = ""
    name: str = ""
    remote: str = ""
    exit_code: int | None = None
    ran_s: float | None = None
    usd: float | None = None
    detail: str = ""
    outputs: tuple[str, ...] = ()
    stays: bool = False


class HostCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a host of `[jobs]` could run something."""

    name: str
    is_ok: bool
    found: str
    remedy: str = ""


async def list_jobs(config: Config, session: str = "") -> list[JobRow]:
    """The jobs on record of a session, or of all."""
    store = sessions_of(config)
    names = [await store.find(session)] if session else sorted(await store.names())
    rows: list[JobRow] = []
    for name in names:
        with suppress(JournalError):  # one that cannot be read is told by `sessions` and `verify`
            rows += [_row(name, job) for job in (await _recorded(config, name)).known.values()]
    return rows


async def show_job(config: Config, session: str, handle: str) -> JobRow:
    """A job, and how its host says it is now."""
    name, job = await _found(config, session, handle)
    if job.ended or job.submitted is None:
        return _row(name, job)
    async with _host(config, job) as host:
        return _row(name, job, await host.status(_ref(job)))


async def job_logs(config: Config, session: str, handle: str, max_bytes: int = LOG_BYTES) -> str:
    """The end of what a job wrote, without secrets."""
    name, job = await _found(config, session, handle)
    if job.ended and job.ended.log:
        async with journal_of(config, name) as journal:
            data = (await journal.get(job.ended.log))[-max_bytes:]
    elif job.submitted is None:
        raise UsageError(f"{handle} is not known to have reached its host.", remedy="Resume its session.")
    else:
        async with _host(config, job) as host:
            data = await host.logs(_ref(job), max_bytes)
    store = sessions_of(config)
    return vault_of(store, name, config).redact(data.decode("utf-8", "replace"))


async def cancel_job(config: Config, session: str, handle: str) -> JobRow:
    """Has a job cancelled. That is on record first, unless another process runs the session; the log of
    commands has it in any case."""
    name, job = await _found(config, session, handle)
    if job.ended:
        return _row(name, job)
    with suppress(JournalOwned):
        async with recording(name, config) as recorder:
            await recorder.record(JobCancelled(job=handle, why="person"))
    async with _host(config, job) as host:
        remote = job.submitted.remote if job.submitted else await host.find(job.planned.name)
        if not remote:
            raise UsageError(f"{handle} was never submitted.", remedy=f"mainspring resume {name}")
        ref = JobRef(job.planned.name, remote)
        await host.cancel(ref)
        return _row(name, job, await host.status(ref))


async def check_hosts(config: Config) -> Sequence[HostCheck]:
    """Every host of the settings, asked at the same time."""
    return await asyncio.gather(*(_checked(config, name) for name in config.settings.jobs))


async def _checked(config: Config, name: str) -> HostCheck:
    settings = config.settings.jobs[name]
    try:
        host = open_host(settings, config.key_environment, _outside(config))
        try:
            async with asyncio.timeout(_CHECK_S):
                found = await host.check()
        finally:
            await host.close()
    except TimeoutError:
        return HostCheck(name=name, is_ok=False, found=f"no answer in {_CHECK_S:g} s")
    except MainspringError as error:
        return HostCheck(name=name, is_ok=False, found=error.message, remedy=error.remedy)
    prices = (settings.usd_per_hour, *(each.usd_per_hour for each in settings.hardware.values()))
    is_priced = any(price is not None for price in prices)
    return HostCheck(
        name=name, is_ok=True, found=f"{settings.kind}, {found}{'' if is_priced else ', no price'}"
    )


async def check_machines(config: Config) -> Sequence[HostCheck]:
    """Every machine of `[machines]`, asked at the same time whether it could run commands of a session."""
    return await asyncio.gather(*(_checked_machine(config, name) for name in config.settings.machines))


async def _checked_machine(config: Config, name: str) -> HostCheck:
    settings = config.settings.machines[name]
    shell = HostShell(_outside(config), config.key_environment, settings.host, settings.ssh_options)
    try:
        machine_settings(config, name)
        async with asyncio.timeout(_CHECK_S):
            found = await RemoteMachine(shell, settings, "check").check()
    except TimeoutError:
        return HostCheck(name=name, is_ok=False, found=f"no answer in {_CHECK_S:g} s")
    except MainspringError as error:
        return HostCheck(name=name, is_ok=False, found=error.message, remedy=error.remedy)
    finally:
        await shell.close()
    price = "" if settings.usd_per_hour is not None else ", no price"
    return HostCheck(name=name, is_ok=True, found=f"ssh, {found}{price}, contained: no")


@asynccontextmanager
async def _host(config: Config, job: RecordedJob) -> AsyncGenerator[JobHost]:
    settings = config.settings.jobs.get(job.planned.host)
    if settings is None:
        raise JobHostError(
            f"The settings do not name the host {job.planned.host!r} any more.",
            remedy=f"Add [jobs.{job.planned.host}] to config.toml again.",
        )
    host = open_host(settings, config.key_environment, _outside(config))
    try:
        yield host
    finally:
        await host.close()


def _outside(config: Config) -> Callable[[], Awaitable[Sandbox]]:
    return partial(outside, confinement_of(config.home, "plan", config), config)


async def _found(config: Config, session: str, handle: str) -> tuple[str, RecordedJob]:
    name = await sessions_of(config).find(session)
    known = (await _recorded(config, name)).known
    if handle not in known:
        names = ", ".join(known) or "none"
        raise UsageError(f"Session {name} has no job {handle!r}.", remedy=f"Its jobs: {names}.")
    return name, known[handle]


async def _recorded(config: Config, session: str) -> Jobs:
    """The jobs of a session: neither those of the one that it was forked from, nor those that were submitted
    before it was imported, which may be anybody's here."""
    jobs = Jobs()
    async with journal_of(config, session) as journal:
        if await journal.last("JobPlanned") is None:
            return jobs
        started = await last_event(journal, SessionStarted)
        imported = made_elsewhere(sessions_of(config).files(journal.session))
        after = max(imported, started.parent_seq if started else 0)
        async for recorded in events_in(journal, kinds=_KINDS, after=after):
            if isinstance(recorded.event, JobsTold):
                jobs = jobs.after(recorded.event)
    return jobs


def _ref(job: RecordedJob) -> JobRef:
    return JobRef(job.planned.name, job.submitted.remote if job.submitted else "")


def _row(session: str, job: RecordedJob, status: JobStatus | None = None) -> JobRow:
    planned, ended = job.planned, job.ended
    now = status or JobStatus(state=ended.state if ended else "running" if job.submitted else "unknown")
    return JobRow(
        session=session,
        job=planned.job,
        host=planned.host,
        state=now.state,
        command=planned.command,
        hardware=planned.hardware,
        name=planned.name,
        remote=job.submitted.remote if job.submitted else "",
        exit_code=ended.exit_code if ended else now.exit_code,
        ran_s=ended.ran_s if ended else now.ran_s,
        usd=ended.usd if ended else planned.usd,
        detail=ended.detail if ended else now.detail,
        outputs=planned.outputs,
        stays=planned.is_staying,
    )

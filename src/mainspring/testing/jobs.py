"""What every host of jobs must do, as checks that any test runner can run: one that runs commands with `sh`.

Give each check a new host, and a name that no other job has. A host whose jobs keep files passes
`files_go_there_and_come_back` as well.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
import time
from pathlib import Path

from mainspring.jobs import JobHost, JobRef, JobSpec, JobStatus

_PATIENCE_S = 120.0
_PAUSE_S = 0.05


def spec_of(name: str, command: str, time_limit_s: float = 600.0, files: Path | None = None) -> JobSpec:
    return JobSpec(name=name, command=command, time_limit_s=time_limit_s, files=files)


async def until(host: JobHost, job: JobRef, *states: str) -> JobStatus:
    """Looks until a job is in one of these states; fails when it ends in another."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        status = await host.status(job)
        if status.state in states:
            return status
        assert not status.is_ended, status
        assert time.monotonic() < deadline, status
        await asyncio.sleep(_PAUSE_S)


async def a_job_runs_to_its_end(host: JobHost, name: str) -> None:
    submitted = await host.submit(spec_of(name, "echo from the job"))
    assert submitted.remote
    assert not submitted.was_there
    job = JobRef(name, submitted.remote)
    status = await until(host, job, "done")
    assert status.ran_s is not None
    assert b"from the job" in await host.logs(job, 1000)
    assert await host.logs(job, 4) == (await host.logs(job, 1000))[-4:]
    await host.cancel(job)
    assert (await host.status(job)).state == "done"


async def a_command_that_fails_is_told(host: JobHost, name: str) -> None:
    submitted = await host.submit(spec_of(name, "echo before; exit 7"))
    status = await until(host, JobRef(name, submitted.remote), "failed")
    assert status.exit_code in (7, None)


async def a_name_is_submitted_once(host: JobHost, name: str) -> None:
    assert await host.find(name) == ""
    first = await host.submit(spec_of(name, "sleep 300"))
    again = await host.submit(spec_of(name, "sleep 300"))
    assert (again.remote, again.was_there) == (first.remote, True)
    assert await host.find(name) == first.remote
    await host.cancel(JobRef(name, first.remote))
    ended = await host.submit(spec_of(name, "sleep 300"))
    assert ended.was_there


async def a_job_is_cancelled(host: JobHost, name: str) -> None:
    submitted = await host.submit(spec_of(name, "echo begun; sleep 300 & sleep 300"))
    job = JobRef(name, submitted.remote)
    await until(host, job, "running")
    await host.cancel(job)
    await until(host, job, "cancelled")
    await host.cancel(job)


async def a_job_ends_with_its_time(host: JobHost, name: str) -> None:
    submitted = await host.submit(spec_of(name, "sleep 300", time_limit_s=1.0))
    await until(host, JobRef(name, submitted.remote), "timed_out")


async def files_go_there_and_come_back(host: JobHost, name: str, folder: Path) -> None:
    archive, fetched = folder / "files.tar", folder / "outputs.tar"
    _pack(archive, {"in/a file.txt": b"content"})
    command = "mkdir out && cat 'in/a file.txt' in/* > out/twice.txt"
    submitted = await host.submit(spec_of(name, command, files=archive))
    job = JobRef(name, submitted.remote)
    await until(host, job, "done")
    assert await host.fetch(job, ("out", "none"), fetched) == ("none",)
    with tarfile.open(fetched) as opened:
        member = opened.extractfile("./out/twice.txt")
        assert member is not None
        assert member.read() == b"contentcontent"


def _pack(archive: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(archive, "w") as opened:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            opened.addfile(entry, io.BytesIO(data))


CHECKS = (
    a_job_runs_to_its_end,
    a_command_that_fails_is_told,
    a_name_is_submitted_once,
    a_job_is_cancelled,
    a_job_ends_with_its_time,
)

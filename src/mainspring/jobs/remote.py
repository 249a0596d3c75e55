"""Jobs on machines that a shell reaches: as detached processes over ssh, and through Slurm.

Both keep a job in a folder of its own there, and speak through `remote.sh`, which runs on that side.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.errors import JobHostError
from mainspring.events import JobState
from mainspring.jobs import JobRef, JobSpec, JobStatus, SubmittedJob
from mainspring.jobs.settings import JobHostSettings, hardware_of, hourly_usd
from mainspring.jobs.shells import HostShell, check_silent, last_line, number_of
from mainspring.jobs.slurm_states import slurm_state

_UPLOAD_S = 3600.0
_MOST_ANSWER, _MOST_DETAIL = 2000, 500
_SLURM = ("sbatch", "squeue", "scancel")


class RemoteJobs:
    def __init__(self, kind: Literal["ssh", "slurm"], shell: HostShell, settings: JobHostSettings) -> None:
        self._kind: Literal["ssh", "slurm"] = kind
        self._shell = shell
        self._settings = settings

    def usd_per_hour(self, hardware: str) -> float | None:
        return hourly_usd(self._settings, hardware)

    async def submit(self, spec: JobSpec) -> SubmittedJob:
        options = (*self._settings.options, *hardware_of(self._settings, spec.hardware).options)
        await self._prepare(spec)
        limit_s, begin_s = str(max(int(spec.time_limit_s), 1)), str(-(-spec.begin_us // 1_000_000))
        more = options if self._kind == "slurm" else ()
        said = await self._ask(spec.name, self._kind, limit_s, begin_s, spec.command, program(), *more)
        remote, _, how = answer_of(said).partition(" ")
        return SubmittedJob(remote, how == "known")

    async def find(self, name: str) -> str:
        return answer_of(await self._ask(name, "find", self._kind))

    async def status(self, job: JobRef) -> JobStatus:
        return status_of(answer_of(await self._ask(job.name, "status", self._kind, job.remote)))

    async def logs(self, job: JobRef, max_bytes: int) -> bytes:
        done = await self._shell.run(program(), self._settings.folder, job.name, "logs", str(max_bytes))
        return done.stdout

    async def cancel(self, job: JobRef) -> None:
        await self._ask(job.name, "cancel", self._kind, job.remote)

    async def fetch(self, job: JobRef, outputs: tuple[str, ...], into: Path) -> tuple[str, ...]:
        missing = set((await self._ask(job.name, "missing", *outputs)).splitlines())
        done = await self._shell.run(
            program(),
            self._settings.folder,
            job.name,
            "fetch",
            *outputs,
            stdout=into,
            timeout_s=_UPLOAD_S,
        )
        self._check(done.exit_code, done.stderr, "send its outputs")
        return tuple(each for each in outputs if each in missing)

    async def check(self) -> str:
        programs = _SLURM if self._kind == "slurm" else ()
        said, _, found = (await self._ask("check", "check", *programs)).strip().rpartition("\n")
        check_silent(said.encode(), self._shell.place)
        return found

    async def close(self) -> None:
        await self._shell.close()

    async def _prepare(self, spec: JobSpec) -> None:
        if spec.files is None:
            await self._ask(spec.name, "prepare")
        else:
            await self._ask(spec.name, "prepare", "files", stdin=spec.files, timeout_s=_UPLOAD_S)

    async def _ask(
        self, name: str, verb: str, *arguments: str, stdin: Path | None = None, timeout_s: float = 120.0
    ) -> str:
        done = await self._shell.run(
            program(), self._settings.folder, name, verb, *arguments, stdin=stdin, timeout_s=timeout_s
        )
        self._check(done.exit_code, done.stderr, verb)
        return done.stdout.decode("utf-8", "replace")

    def _check(self, exit_code: int, stderr: bytes, what: str) -> None:
        if exit_code != 0:
            why = last_line(stderr) or f"exit code {exit_code}"
            raise JobHostError(f"{self._shell.place} did not {what}: {why}.", is_refused=True)


@cache
def program() -> str:
    """The far side, as a shell program."""
    return resources.files("mainspring.jobs").joinpath("remote.sh").read_text(encoding="utf-8")


def status_of(line: str) -> JobStatus:
    """What `STATE CODE SECONDS WORDS...` says; a word for a state that nobody knows is no end."""
    state, code, ran, *words = [*line.split(), *("-", "-", "-")[len(line.split()) :]]
    is_slurm = state.startswith("slurm:")
    known: JobState = slurm_state(state[6:]) if is_slurm else _word(state)
    detail = state[6:] if is_slurm and known not in ("queued", "running", "done") else " ".join(words)
    return JobStatus(
        state=known,
        exit_code=number_of(code),
        ran_s=number_of(ran),
        detail=detail[:_MOST_DETAIL],
    )


def answer_of(output: str) -> str:
    """What `remote.sh` says, which is one line; what stands before it is of a shell that begins with it."""
    return (output.strip().splitlines() or [""])[-1].strip()[:_MOST_ANSWER]


def _word(text: str) -> JobState:
    try:
        return msgspec.convert(text, JobState)
    except msgspec.ValidationError:
        return "unknown"

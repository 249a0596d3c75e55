"""Hosted jobs over HTTP, as the API of Hugging Face Jobs has them: a container image, a flavor of hardware, a
time limit, and labels, by one of which a job is found again.

Such a job has no folder: no files are sent, and what it makes it must upload itself. Its log is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from mainspring.errors import JobHostError, UsageError
from mainspring.events import JobState
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.jobs import JobRef, JobSpec, JobStatus, SubmittedJob
from mainspring.jobs.settings import JobHostSettings, hourly_usd
from mainspring.net.client import send_request, stream_events

LABEL = "mainspring"
_STAGES: dict[str, JobState] = {
    "COMPLETED": "done",
    "CANCELED": "cancelled",
    "DELETED": "cancelled",
    "ERROR": "failed",
    "RUNNING": "running",
    "SCHEDULING": "queued",
    "QUEUED": "queued",
}
_SILENCE_S = 5.0
_MOST_LOG_S = 60.0
_MOST_DETAIL = 500


class _Stage(msgspec.Struct, frozen=True):
    stage: str
    message: str | None = None


class _HubJob(msgspec.Struct, frozen=True, rename="camel"):
    """What a hub says of a job, as far as it is used here."""

    id: str
    status: _Stage
    labels: dict[str, str] | None = None
    created_at: str | None = None


class _LogLine(msgspec.Struct, frozen=True):
    data: str = ""


class HubJobs:
    def __init__(self, settings: JobHostSettings, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._environment = environment
        if not settings.namespace:
            raise UsageError(
                "The hub has no namespace to run jobs in.", remedy="Set `namespace` of [jobs.NAME]."
            )
        self._jobs = f"{settings.url.rstrip('/')}/api/jobs/{quote(settings.namespace, safe='')}"

    def usd_per_hour(self, hardware: str) -> float | None:
        return hourly_usd(self._settings, hardware)

    async def submit(self, spec: JobSpec) -> SubmittedJob:
        if spec.files is not None or spec.begin_us:
            raise UsageError("A hosted job takes no files and no time to begin at.")
        if known := await self.find(spec.name):
            return SubmittedJob(known, was_there=True)
        body = {
            "dockerImage": self._settings.image,
            "command": ["sh", "-c", spec.command],
            "arguments": [],
            "environment": {},
            "flavor": spec.hardware or self._settings.hub_hardware,
            "timeoutSeconds": max(int(spec.time_limit_s), 1),
            "labels": {LABEL: spec.name},
        }
        made: _HubJob = await self._ask(
            "POST", self._jobs, "take the job", _HubJob, msgspec.json.encode(body)
        )
        return SubmittedJob(made.id)

    async def find(self, name: str) -> str:
        listed: list[_HubJob] = await self._ask("GET", self._jobs, "list jobs", list[_HubJob])
        return next((job.id for job in listed if (job.labels or {}).get(LABEL) == name), "")

    async def status(self, job: JobRef) -> JobStatus:
        found: _HubJob = await self._ask("GET", self._address(job), "say how it is", _HubJob)
        word, message = found.status.stage, (found.status.message or "")[:_MOST_DETAIL]
        state = _STAGES.get(word, "running")
        if state == "failed" and "timeout" in message.lower():
            state = "timed_out"
        return JobStatus(state=state, ran_s=_age_s(found.created_at), detail=message)

    async def logs(self, job: JobRef, max_bytes: int) -> bytes:
        """The stream of a job that runs stays open; a silence ends the look."""
        kept = bytearray()
        url = f"{self._address(job)}/logs"
        stream = stream_events(
            url, environment=self._environment, headers=self._headers(), silence_s=_SILENCE_S
        )
        try:
            async with asyncio.timeout(_MOST_LOG_S), aclosing(stream):
                async for status, data in stream:
                    if status != 200:
                        raise JobHostError(f"{url} answered with {status}.", is_refused=True)
                    kept += _log_line(data)
                    del kept[: max(len(kept) - max_bytes, 0)]
        except TimeoutError:
            return bytes(kept)
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error
        return bytes(kept)

    async def cancel(self, job: JobRef) -> None:
        if not (await self.status(job)).is_ended:
            await self._ask("POST", f"{self._address(job)}/cancel", "cancel the job", Any)

    async def fetch(self, job: JobRef, outputs: tuple[str, ...], into: Path) -> tuple[str, ...]:
        del outputs, into
        raise UsageError(
            f"{job.remote} is a hosted job: its files are gone with it.",
            remedy="Have the command upload what it makes; its log can be read.",
        )

    async def check(self) -> str:
        found: list[_HubJob] = await self._ask("GET", self._jobs, "list jobs", list[_HubJob])
        return f"{len(found)} jobs listed"

    async def close(self) -> None:
        return

    def _address(self, job: JobRef) -> str:
        return f"{self._jobs}/{quote(job.remote, safe='')}"

    def _headers(self) -> dict[str, str]:
        token = self._environment.get(self._settings.token_variable, "")
        if not token:
            raise JobHostError(
                f"There is no token for {self._settings.url}.",
                remedy=f"Set {self._settings.token_variable} to a token that may run jobs.",
                is_refused=True,
            )
        return {"authorization": f"Bearer {token}", "accept": "application/json"}

    async def _ask(self, method: str, url: str, what: str, kind: Any, body: bytes = b"") -> Any:
        headers = {**self._headers(), "content-type": "application/json"}
        try:
            answer = await send_request(
                method, url, environment=self._environment, headers=headers, body=body
            )
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error
        if answer.status // 100 != 2:
            said = answer.body[:300].decode("utf-8", "replace")
            raise JobHostError(
                f"{self._settings.url} did not {what}: {answer.status} {said}",
                remedy="Check url, namespace and token of [jobs.NAME].",
                is_refused=answer.status < 500,
            )
        try:
            return msgspec.json.decode(answer.body, type=kind) if kind is not Any else None
        except DECODE_ERRORS as error:
            raise JobHostError(f"{self._settings.url} answered something else: {error}.") from error

    def _unreachable(self, error: Exception) -> JobHostError:
        host = urlsplit(self._settings.url).netloc
        return JobHostError(f"{host} cannot be reached: {error!r}.", remedy="Check `url` of [jobs.NAME].")


def _log_line(data: bytes) -> bytes:
    try:
        return msgspec.json.decode(data, type=_LogLine).data.encode() + b"\n" if data else b""
    except DECODE_ERRORS:
        return b""  # a mark of the stream itself, not a line


def _age_s(created: str | None) -> float | None:
    """For how long there has been a job: a hub does not say for how long it ran; it bills no more."""
    try:
        return (
            max((datetime.now(UTC) - datetime.fromisoformat(created)).total_seconds(), 0.0)
            if created
            else None
        )
    except (ValueError, TypeError):
        return None

"""The tools `submit_job` and `job`, found with `find_tools` where settings name machines that run jobs."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mainspring.app.session_jobs import SessionJobs, job_line
from mainspring.approvals import Effect
from mainspring.errors import MainspringError, UsageError
from mainspring.events import JobPlanned, OnJob, WaitStarted
from mainspring.events.counts import plural, readable_bytes
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments
from mainspring.waits.hold import hold

_SHOWN_BYTES = 16_000
_NAMES = 20


class SubmitArguments(Arguments, frozen=True):
    host: str
    command: Annotated[str, Meta(min_length=1)]
    hours: Annotated[float, Meta(gt=0, description="Time limit")]
    hardware: str = ""
    files: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    begin: Annotated[str, Meta(description="ISO time; at once without it")] = ""
    stay: Annotated[bool, Meta(description="Goes on when this turn or goal is over")] = False


class JobArguments(Arguments, frozen=True):
    action: Literal["status", "logs", "wait", "collect", "cancel", "list"]
    job: Annotated[str, Meta(description="As j1")] = ""
    max_seconds: Annotated[float, Meta(gt=0)] | None = None


def job_tools(jobs: SessionJobs) -> list[Tool]:
    async def submit(arguments: SubmitArguments, place: CallContext) -> Output:
        try:
            return await _submit(jobs, arguments, place)
        except MainspringError as error:  # what was set aside for it is free again, unless a host may have it
            known = jobs.runtime.state.jobs.of_call(place.call)
            handle = known.planned.job if known and not known.ended else ""
            more = f" Whether it runs is unknown: look with job status {handle}." if handle else ""
            text = f"{error.message} {error.remedy}{more}".strip()
            return Output(text=text, is_error=True, cost_usd=0.0, is_going_on=bool(handle))

    async def look(arguments: JobArguments, place: CallContext) -> Output:
        try:
            return await _look(jobs, arguments, place)
        except MainspringError as error:
            raise ToolFailed(f"{error.message} {error.remedy}".strip()) from error

    hosts = "; ".join(
        f"{name} ({each.kind}{': ' + ', '.join(each.hardware) if each.hardware else ''})"
        for name, each in jobs.hosts.items()
    )
    return [
        Tool(
            name="submit_job",
            description=f"{described(Path(__file__).with_name('submit_job.py'))} Hosts: {hosts}.",
            arguments=SubmitArguments,
            effect="network",
            command=lambda arguments: arguments.command,
            hosts=lambda arguments: (arguments.host,),
            cost_usd=lambda arguments: _usd(jobs, arguments),
            is_recurring=lambda arguments: bool(arguments.begin),
            goes_on=True,
            run=submit,
        ),
        Tool(
            name="job",
            description=described(Path(__file__).with_name("job.py")),
            arguments=JobArguments,
            effect="write",
            effect_of=_effect,
            paths=lambda arguments: jobs.outputs(arguments.job) if arguments.action == "collect" else (),
            goes_on=True,
            run=look,
        ),
    ]


async def _submit(jobs: SessionJobs, arguments: SubmitArguments, place: CallContext) -> Output:
    settings = jobs.hosts.get(arguments.host)
    if settings and arguments.hours > settings.max_hours:
        raise UsageError(f"A job on {arguments.host} has at most {settings.max_hours:g} hours.")
    if settings and settings.kind == "hub" and (arguments.files or arguments.outputs or arguments.begin):
        raise UsageError(
            f"{arguments.host} runs hosted jobs: they take no files, outputs or begin.",
            remedy="Have the command download what it needs and upload what it makes.",
        )
    planned = JobPlanned(
        job="",
        name="",
        call=place.call,
        host=arguments.host,
        command=arguments.command,
        hardware=arguments.hardware,
        time_limit_s=arguments.hours * 3600,
        usd=jobs.usd(arguments.host, arguments.hardware, arguments.hours),
        files=arguments.files,
        outputs=arguments.outputs,
        begin_us=_time_us(arguments.begin) if arguments.begin else 0,
        is_staying=arguments.stay,
    )
    job, packed = await jobs.submit(planned, place)
    if job.ended:
        return Output(text=job_line(job), is_error=job.ended.state != "done", cost_usd=job.ended.usd or 0.0)
    usd = planned.usd
    lines = [f"Submitted {job.planned.job} to {arguments.host}."]
    if packed.count:
        lines.append(f"Sent {plural(packed.count, 'file')} ({readable_bytes(packed.bytes)}).")
    if packed.left_out:
        names = ", ".join(packed.left_out[:_NAMES])
        lines.append(f"Not sent (links, or hidden from you): {names}.")
    if usd:
        lines.append(f"It costs at most {usd:.2f} USD, which are set aside.")
    end = (
        "goes on when this turn is over" if arguments.stay else "is cancelled when this turn or goal is over"
    )
    lines.append(f"It {end}.")
    return Output(text=" ".join(lines), is_going_on=True)


async def _look(jobs: SessionJobs, arguments: JobArguments, place: CallContext) -> Output:
    handle = arguments.job
    match arguments.action:
        case "list":
            known = jobs.runtime.state.jobs.known.values()
            return Output(text="\n".join(map(job_line, known)) or "There are no jobs.")
        case "status":
            job, status = await jobs.status(handle)
            return Output(text=job_line(job, status))
        case "logs":
            data = await jobs.logs(handle, min(_SHOWN_BYTES, place.room))
            return Output(text=data.decode("utf-8", "replace") or "(it has written nothing yet)")
        case "wait":
            return await _wait(jobs, arguments, place)
        case "collect":
            collected = await jobs.collect(handle, place)
            files = ", ".join(collected.files[:_NAMES]) or "nothing"
            more = len(collected.files) - _NAMES
            missing = f" It did not make: {', '.join(collected.missing)}." if collected.missing else ""
            said = f"Wrote {files}{f' and {more:,} more' if more > 0 else ''}.{missing}"
            if left := collected.left_out:
                others = f", and {len(left) - _NAMES:,} more" if len(left) > _NAMES else ""
                said = f"{said} Not taken back: {', '.join(left[:_NAMES])}{others}."
            return Output(text=said)
        case "cancel":
            return Output(text=job_line(await jobs.cancel(handle, "asked")))


async def _wait(jobs: SessionJobs, arguments: JobArguments, place: CallContext) -> Output:
    job, waiting = jobs.job(arguments.job), place.waiting
    if waiting is None:
        raise ToolFailed("Nobody can wait here.")
    patience = waiting.reach.patience
    limit_s = job.planned.time_limit_s + patience.default_s
    max_s = min(arguments.max_seconds or limit_s, patience.max_s)
    started = WaitStarted(
        wait=f"w-{place.call}",
        conditions=(OnJob(job=arguments.job),),
        deadline_us=waiting.reach.clock() + int(max_s * 1e6),
        call=place.call,
    )
    ended = await hold(waiting, started)
    outputs = jobs.outputs(arguments.job)
    advice = f"\nCollect its outputs ({', '.join(outputs)}) with action=collect." if outputs else ""
    return Output(text=ended.summary + (advice if ended.cause == "met" else ""))


def _usd(jobs: SessionJobs, arguments: SubmitArguments) -> float | None:
    """A host or hardware that is not there, or too long a time, costs nothing: the call says so itself."""
    settings = jobs.hosts.get(arguments.host)
    if settings and arguments.hours > settings.max_hours:
        return 0.0
    try:
        return jobs.usd(arguments.host, arguments.hardware, arguments.hours)
    except UsageError:
        return 0.0


def _effect(arguments: JobArguments) -> Effect:
    """Cancelling twice is cancelling once, and touches only what this session submitted."""
    match arguments.action:
        case "collect":
            return "write"
        case "cancel":
            return "none"
        case "status" | "logs" | "wait" | "list":
            return "read"


def _time_us(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1e6)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{text!r} is not an ISO time such as 2026-01-31T08:00:00Z.") from error

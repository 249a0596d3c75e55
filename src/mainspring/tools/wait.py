"""Waits for what takes long, on record: an interrupted call goes on with the wait that it had begun."""

from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mainspring.approvals import Effect
from mainspring.errors import UsageError
from mainspring.events import (
    Condition,
    OnCallback,
    OnCommand,
    OnFile,
    OnPid,
    OnProcess,
    OnSession,
    OnSlurm,
    OnTime,
    WaitEnded,
    WaitStarted,
)
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments
from mainspring.waits.describe import duration
from mainspring.waits.patience import Patience

_LONGEST_S = 1e10
_CAUSES = {
    "met": "Woken",
    "deadline": "Woken without it",
    "stalled": "Woken early",
    "unknown": "Woken, because nobody can tell",
    "cancelled": "Broken off",
}


class WaitArguments(Arguments, frozen=True):
    processes: Annotated[tuple[str, ...], Meta(description="As p1")] = ()
    pids: tuple[int, ...] = ()
    seconds: Annotated[float, Meta(ge=0)] | None = None
    until: Annotated[str, Meta(description="ISO time")] = ""
    file: str = ""
    file_is: Literal["exists", "gone", "changed"] = "exists"
    pattern: Annotated[str, Meta(description="Regex for a line of file")] = ""
    slurm_jobs: tuple[str, ...] = ()
    command: Annotated[str, Meta(description="Run every every_s until exit 0")] = ""
    every_s: Annotated[float, Meta(ge=5)] = 30.0
    session: str = ""
    callback_file: Annotated[str, Meta(description="Gets a URL that wakes you")] = ""
    all: bool = False
    max_seconds: Annotated[float, Meta(gt=0)] | None = None
    stall_minutes: Annotated[float, Meta(gt=0)] | None = None


async def _run(arguments: WaitArguments, place: CallContext) -> Output:
    waiting = place.waiting
    if waiting is None:
        raise ToolFailed("Nobody can wait here.")
    reach = waiting.reach
    now_us = reach.clock()
    conditions = _conditions(arguments, now_us)
    started = WaitStarted(
        wait=f"w-{place.call}",
        conditions=conditions,
        needs="all" if arguments.all else "any",
        deadline_us=now_us + int(_max_s(arguments, conditions, now_us, reach.patience) * 1e6),
        stall_s=arguments.stall_minutes * 60 if arguments.stall_minutes else None,
        call=place.call,
    )
    hold = import_module("mainspring.waits.hold").hold  # loads all that can be waited for
    try:
        return Output(text=_told(await hold(waiting, started)))
    except UsageError as error:
        raise ToolFailed(f"{error.message} {error.remedy}".strip()) from error


def _conditions(arguments: WaitArguments, now_us: int) -> tuple[Condition, ...]:
    if arguments.pattern and not arguments.file:
        raise ToolFailed("pattern needs a file.")
    found: list[Condition] = [OnProcess(handle=handle) for handle in arguments.processes]
    found += [OnPid(pid=pid) for pid in arguments.pids]
    found += [OnSlurm(job=job) for job in arguments.slurm_jobs]
    if arguments.seconds is not None:
        found.append(OnTime(at_us=now_us + int(min(arguments.seconds, _LONGEST_S) * 1e6)))
    if arguments.until:
        found.append(OnTime(at_us=_time_us(arguments.until)))
    if arguments.file:
        until = "matches" if arguments.pattern else arguments.file_is
        found.append(OnFile(path=arguments.file, until=until, pattern=arguments.pattern))
    if arguments.command:
        found.append(OnCommand(command=arguments.command, every_s=arguments.every_s))
    if arguments.session:
        found.append(OnSession(session=arguments.session))
    if arguments.callback_file:
        found.append(OnCallback(token="", file=arguments.callback_file))
    if not found:
        raise ToolFailed("Say what to wait for: processes, pids, seconds, until, file, slurm_jobs, …")
    return tuple(found)


def _max_s(
    arguments: WaitArguments, conditions: tuple[Condition, ...], now_us: int, patience: Patience
) -> float:
    """How long is waited at most: by default long enough for the times that were named."""
    named_s = [(item.at_us - now_us) / 1e6 for item in conditions if isinstance(item, OnTime)]
    max_s = arguments.max_seconds or max(patience.default_s, *(wait_s + 1 for wait_s in named_s), 0.0)
    if max_s > patience.max_s:
        raise ToolFailed(f"At most {patience.max_s:g} seconds can be waited for, not {max_s:g}.")
    return max_s


def _time_us(text: str) -> int:
    """A time without a zone is one of this machine's zone."""
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1e6)
    except (ValueError, OverflowError, OSError) as error:
        raise ToolFailed(f"{text!r} is not an ISO time such as 2026-01-31T08:00:00Z.") from error


def _told(ended: WaitEnded) -> str:
    late = f" ({duration(ended.late_s)} ago, while nobody was here)" if ended.late_s >= 1 else ""
    return f"{_CAUSES[ended.cause]}{late}. {ended.summary}"


def _effect(arguments: WaitArguments) -> Effect:
    if arguments.command:
        return "execute"
    return "write" if arguments.callback_file else "read"


TOOL = Tool(
    name="wait",
    description=described(Path(__file__)),
    arguments=WaitArguments,
    effect="execute",
    effect_of=_effect,
    paths=lambda arguments: tuple(filter(None, (arguments.file, arguments.callback_file))),
    command=lambda arguments: arguments.command,
    goes_on=True,
    run=_run,
)

"""Events of jobs on other machines as lines for people; a part of the table in `lines`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.events import (
    Event,
    JobCancelled,
    JobCollected,
    JobEnded,
    JobPlanned,
    JobSubmitted,
    MachineChosen,
    MachineEnded,
    MachineStarted,
)
from mainspring.events.counts import plural

_SHOWN = 100


def _planned(event: JobPlanned) -> str:
    command = event.command.strip().partition("\n")[0][:_SHOWN]
    hardware = f" ({event.hardware})" if event.hardware else ""
    price = "at an unknown price" if event.usd is None else f"for at most ${event.usd:.2f}"
    hours = f"{event.time_limit_s / 3600:g} h"
    return f"⇢ job {event.job} for {event.host}{hardware}, {hours}, {price}: {command}"


def _submitted(event: JobSubmitted) -> str:
    how = "was there already" if event.was_there else "submitted"
    return f"⇢ job {event.job} {how} as {event.remote}"


def _cancelled(event: JobCancelled) -> str:
    why = {"over": "what it was for is over", "asked": "asked for", "person": "by a person"}
    return f"⇢ job {event.job} is cancelled: {why.get(event.why, event.why)}"


def _ended(event: JobEnded) -> str:
    code = f", exit code {event.exit_code}" if event.exit_code is not None else ""
    ran = f", {event.ran_s:.0f} s" if event.ran_s is not None else ""
    cost = f", ${event.usd:.4f}" if event.usd is not None else ""
    detail = f": {event.detail}" if event.detail else ""
    return f"⇢ job {event.job} {event.state.replace('_', ' ')}{code}{ran}{cost}{detail}"


def _collected(event: JobCollected) -> str:
    missing = f"; not made: {', '.join(event.missing)}" if event.missing else ""
    left = f"; {len(event.left_out)} not taken back" if event.left_out else ""
    return f"⇢ job {event.job}: {plural(len(event.files), 'file')} collected{missing}{left}"


def _chosen(event: MachineChosen) -> str:
    return f"⇢ commands run on {event.machine} (contained: no)"


def _begun(event: MachineStarted) -> str:
    price = "at an unknown price" if event.usd is None else f"for at most ${event.usd:.2f}"
    hours = f"{event.time_limit_s / 3600:.3g} h"
    return f"⇢ {event.use}: commands run on {event.machine} (contained: no) for at most {hours}, {price}"


def _left(event: MachineEnded) -> str:
    ran = f" after {event.ran_s:.0f} s" if event.ran_s is not None else ""
    cost = f", ${event.usd:.4f}" if event.usd is not None else ""
    why = {"silence": ": nobody was heard of there for too long", "time": ": its time was over"}
    return f"⇢ everything of {event.use} was ended there{ran}{cost}{why.get(event.why, '')}"


JOB_LINES: dict[type[Event], Callable[[Any], str]] = {
    JobPlanned: _planned,
    JobSubmitted: _submitted,
    JobCancelled: _cancelled,
    JobEnded: _ended,
    JobCollected: _collected,
    MachineChosen: _chosen,
    MachineStarted: _begun,
    MachineEnded: _left,
}

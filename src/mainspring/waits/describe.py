"""Conditions in words, for people and for the model."""

from __future__ import annotations

from mainspring.events import (
    Condition,
    OnAnswer,
    OnCallback,
    OnChild,
    OnCommand,
    OnFile,
    OnJob,
    OnPid,
    OnProcess,
    OnQuota,
    OnSession,
    OnSlurm,
    OnTime,
    WaitStarted,
)
from mainspring.events.moments import date_of

_MAX_SHOWN = 8
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_FILE_WORDS = {"exists": "to exist", "gone": "to be gone", "changed": "to change"}


def described(condition: Condition) -> str:
    match condition:
        case OnProcess():
            return f"process {condition.handle} to end"
        case OnPid():
            return f"process number {condition.pid} to end"
        case OnTime():
            return clock(condition.at_us)
        case OnFile():
            return _file(condition)
        case OnSlurm():
            return f"Slurm job {condition.job} to end"
        case OnCommand():
            return f"`{condition.command}` to succeed"
        case OnCallback() | OnAnswer() | OnQuota() | OnSession() | OnChild() | OnJob():
            return _outside(condition)


def joined(started: WaitStarted) -> str:
    """What a wait is for, in one phrase."""
    word = " or " if started.needs == "any" else " and "
    more = len(started.conditions) - _MAX_SHOWN
    shown = [described(condition) for condition in started.conditions[:_MAX_SHOWN]]
    return word.join([*shown, f"{more} more"] if more > 0 else shown)


def duration(seconds: float) -> str:
    """How long something takes, as a person says it."""
    whole = max(round(seconds), 0)
    if whole < 2 * _MINUTE_S:
        return f"{whole} s"
    if whole < 2 * _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    if whole < 2 * _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} days {whole % _DAY_S // _HOUR_S} h"


def _file(condition: OnFile) -> str:
    if condition.until == "matches":
        return f"a line in {condition.path} that matches {condition.pattern!r}"
    return f"{condition.path} {_FILE_WORDS[condition.until]}"


def _outside(condition: OnCallback | OnAnswer | OnQuota | OnSession | OnChild | OnJob) -> str:
    match condition:
        case OnCallback():
            return f"a call of {condition.url or condition.token}"
        case OnAnswer():
            return f"an answer to {condition.call}"
        case OnQuota():
            return f"{condition.model} to answer again at {clock(condition.at_us)}"
        case OnSession():
            return f"session {condition.session} to end"
        case OnChild():
            return f"child {condition.child} to end"
        case OnJob():
            return f"job {condition.job} to end"


def clock(time_us: int) -> str:
    return date_of(time_us).strftime("%Y-%m-%dT%H:%M:%SZ")

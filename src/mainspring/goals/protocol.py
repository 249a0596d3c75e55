"""What an agent says about its goal in plain text: each word alone on its line, in its last message.

Lines in code fences, in indented code and in quotations are talk about the words, not the words. Numbers that
cannot be what they are said to be are problems, never exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mainspring.waits.commands import JOB

DONE = "<promise>DONE</promise>"

_TAG = re.compile(r"<(pid_number|wait_seconds|slurm_job_number)>\s*(.*?)\s*</\1>")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_MAX_PID = 2**22
_MAX_WAIT_S = 31 * 24 * 3600.0


class AgentSignals(msgspec.Struct, frozen=True):
    """What the last message of an iteration asks for."""

    is_done: bool = False
    pids: tuple[int, ...] = ()
    jobs: tuple[str, ...] = ()
    wait_s: float | None = None
    problems: tuple[str, ...] = ()


def read(text: str, *, done: str = DONE) -> AgentSignals:
    """Reads the words of the protocol from one message; the last suggested wait counts."""
    pids: dict[int, None] = {}
    jobs: dict[str, None] = {}
    problems: list[str] = []
    is_done, wait_s = False, None
    for line in spoken_lines(text):
        if line == done:
            is_done = True
            continue
        found = _TAG.fullmatch(line)
        if found is None:
            continue
        word, value = found.groups()
        if word == "pid_number" and (pid := _pid(value)):
            pids[pid] = None
        elif word == "slurm_job_number" and JOB.fullmatch(value):
            jobs[value] = None
        elif word == "wait_seconds" and (seconds := _seconds(value)) is not None:
            wait_s = seconds
        else:
            problems.append(f"<{word}> cannot be {value[:40]!r}")
    return AgentSignals(is_done, tuple(pids), tuple(jobs), wait_s, tuple(problems))


def spoken_lines(text: str) -> Iterator[str]:
    """The lines that the agent itself says, without their ends: no code, no quotations."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and line.strip() == found[1]:
                fence = ""
        elif found:
            fence = found[1]
        elif not line.startswith(("    ", "\t")) and not line.lstrip().startswith(">"):
            yield line.strip()


def _pid(value: str) -> int:
    return int(value) if re.fullmatch(r"[0-9]{1,7}", value) and 1 < int(value) <= _MAX_PID else 0


def _seconds(value: str) -> float | None:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", value):
        return None
    return min(float(value), _MAX_WAIT_S)

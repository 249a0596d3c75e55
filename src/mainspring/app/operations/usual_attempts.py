"""How often a task is tried where nobody says it: a small model seldom gets it right at once, and where the
tests of a project can tell, or what it wrote cannot be right, it is asked again.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path

from mainspring.events import AttemptEnded, AttemptsStarted
from mainspring.session.session import Session, runtime_of
from mainspring.workspace.project import asked_test, look_at

SMALL_ATTEMPTS = 3


async def usual_attempts(session: Session, task: str) -> int:
    """Three for the first task of a small model when nobody is asked for what it takes: to write files, and
    to run the test command, where one is known. Without one, files that cannot be read or are as they were
    end an attempt."""
    state = session.state
    if state.prompt.profile != "small" or state.turn or session.output is not None or not task:
        return 1
    checks = await asyncio.to_thread(known_checks, state.workspace, task)
    runtime = runtime_of(session)
    suite = import_module("mainspring.turns.suite")
    is_free = await suite.may_write(runtime) and all([await suite.may_run(runtime, each) for each in checks])
    return SMALL_ATTEMPTS if is_free else 1


def known_checks(folder: Path, task: str = "") -> tuple[str, ...]:
    """The test command that a task gives, or else that of the project in a folder; nothing when none is
    known."""
    test = asked_test(look_at(folder), task).test
    return (test,) if test else ()


def is_enough(started: AttemptsStarted, ended: AttemptEnded) -> bool:
    """Whether no other attempt is wanted: it passed, or nobody asked for attempts, and the first had nothing
    to change, as with a question."""
    is_answer = started.is_usual and ended.attempt == 1 and ended.ending == "done" and not ended.files
    return ended.is_passed or is_answer

"""What every engine must do, as checks that any test runner can run.

Give each check a `Stage`: it opens a session in a workspace, whose engine acts by the first word of what is
said. `work` uses tools if it has any, says `DONE` in the last line and ends; `size` answers with the number
of characters and the SHA-256 of what it was told; `fail` says something and fails; `hang` starts a process
with the word behind it on its command line, shows `hanging`, and never ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

from mainspring.context.history import History
from mainspring.events import (
    AssistantSaid,
    CallEnded,
    CallStarted,
    OutputDelta,
    Recorded,
    SpendReserved,
    SpendSettled,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.session.session import Session

Stage = Callable[[str], AbstractAsyncContextManager[Session]]
"""Opens a new session for what is going to be said, or the same one again."""

_STOPPED_WITHIN_S = 30.0
_LARGE = 200 * 1024


async def a_turn_ends_once_and_its_last_message_is_the_last_word(stage: Stage) -> None:
    events = await _played(stage, "work")
    ended = [item.event for item in events if isinstance(item.event, TurnEnded)]
    assert [event.ending for event in ended] == ["done"], ended
    assert isinstance(events[-1].event, TurnEnded)
    said = [item.event for item in events if isinstance(item.event, AssistantSaid)]
    assert said[-1].stop == "end"
    assert said[-1].text.strip().splitlines()[-1] == "DONE", said[-1]
    assert faults(events) == []


async def what_is_said_is_shown_while_it_is_said(stage: Stage) -> None:
    async with stage("work") as session:
        shown = [event async for event in session.run("work") if isinstance(event, TextDelta)]
    assert "DONE" in "".join(event.text for event in shown)


async def a_failure_is_never_success(stage: Stage) -> None:
    events = await _played(stage, "fail")
    ended = events[-1].event
    assert isinstance(ended, TurnEnded)
    assert ended.ending == "failed", ended
    assert ended.detail
    assert faults(events) == []


async def a_long_prompt_arrives_whole(stage: Stage) -> None:
    prompt = "size " + "ä€x\n" * (_LARGE // 7)
    assert len(prompt.encode()) > _LARGE
    events = await _played(stage, prompt)
    said = [item.event for item in events if isinstance(item.event, AssistantSaid)]
    told = f"{len(prompt)} {hashlib.sha256(prompt.encode()).hexdigest()}"
    assert said[-1].text.strip() == told, said[-1].text[:200]


async def stopping_ends_all_that_was_started(stage: Stage) -> None:
    marker = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    async with stage(f"hang {marker}") as session:
        async with aclosing(session.watch(f"hang {marker}")) as shown:
            await _until_it_hangs(shown)
            pids = processes(marker)
            assert pids, "it was to start a process with the word on its command line"
            began = time.monotonic()
            await session.stop()
            took_s = time.monotonic() - began
        events = await _events(session)
    assert took_s < _STOPPED_WITHIN_S, f"it took {took_s:.1f} s"
    assert processes(marker) == []
    ended = events[-1].event
    assert isinstance(ended, TurnEnded)
    assert ended.ending == "interrupted"
    assert faults(events) == []


async def a_stopped_turn_can_be_followed_by_another(stage: Stage) -> None:
    marker = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    async with stage(f"hang {marker}") as session, aclosing(session.watch(f"hang {marker}")) as shown:
        await _until_it_hangs(shown)
        await session.stop()
    async with stage("work") as session:
        events = [event async for event in session.run("work")]
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.ending == "done", ended


CHECKS: tuple[Callable[[Stage], Awaitable[None]], ...] = (
    a_turn_ends_once_and_its_last_message_is_the_last_word,
    what_is_said_is_shown_while_it_is_said,
    a_failure_is_never_success,
    a_long_prompt_arrives_whole,
    stopping_ends_all_that_was_started,
    a_stopped_turn_can_be_followed_by_another,
)


def faults(events: Sequence[Recorded]) -> list[str]:
    """What is wrong with a journal: calls without exactly one result, money that is not settled, turns that
    did not end once, a history that does not take it."""
    found: list[str] = []
    open_calls: set[str] = set()
    started: set[str] = set()
    reserved: set[str] = set()
    turns = 0
    history = History(ScriptedModel(Script(replies=())).encode)
    for recorded in events:
        event = recorded.event
        history.apply(recorded)
        match event:
            case AssistantSaid():
                found += [f"{call} has no result" for call in open_calls]
                open_calls = {call.call for call in event.calls}
            case CallStarted():
                found += [] if event.call in open_calls else [f"{event.call} started and was not asked for"]
                started.add(event.call)
            case CallEnded():
                found += [] if event.call in open_calls else [f"{event.call} ended and was not open"]
                open_calls.discard(event.call)
            case SpendReserved():
                reserved.add(event.spend)
            case SpendSettled():
                reserved.discard(event.spend)
            case TurnStarted():
                turns += 1
            case TurnEnded():
                turns -= 1
                found += [f"{call} has no result" for call in open_calls]
                is_open = event.ending == "done" and not history.is_answered
                found += ["it is done and not answered"] if is_open else []
                open_calls = set()
            case _:
                pass
    found += [f"{spend} is not settled" for spend in reserved]
    return found + ([] if turns == 0 else [f"{turns} turns did not end"])


def processes(marker: str) -> list[int]:
    """The processes that have a word on their command line."""
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if marker in _words(pid)]


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


async def _played(stage: Stage, text: str) -> list[Recorded]:
    async with stage(text) as session:
        async for _ in session.run(text):
            pass
        return await _events(session)


async def _events(session: Session) -> list[Recorded]:
    events: list[Recorded] = []
    last = await session.journal.last_seq()
    async with aclosing(session.subscribe()) as recorded:
        async for item in recorded:
            events.append(item)
            if item.seq >= last:
                return events
    return events


async def _until_it_hangs(shown: AsyncGenerator[Recorded]) -> None:
    async with asyncio.timeout(60):
        async for item in shown:
            if isinstance(item.event, TextDelta | OutputDelta) and "hanging" in item.event.text:
                return
    raise AssertionError("it was to show that it hangs")

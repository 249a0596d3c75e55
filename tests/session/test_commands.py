"""What another process tells a running session is recorded once, whenever its owner dies."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from mainspring.disk.inbox import (
    AnswerCommand,
    Inbox,
    NoteCommand,
    SayCommand,
    StopCommand,
)
from mainspring.disk.shared_files import LocalFiles
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    GoalSet,
    NoteAdded,
    OnTime,
    Origin,
    Recorded,
    TurnEnded,
    TurnStarted,
    UserSaid,
    WaitStarted,
)
from mainspring.folds.state import State
from mainspring.journal.tables import FILE_NAME
from mainspring.session.commands import carry_out, look_again_s
from mainspring.session.session import runtime_of
from tests.stage import SESSION, Stage, call, calls, says, take, texts, wait_for

ROOT = Path(__file__).parents[2]
BEA = Origin(user="bea", device="desk", face="cli")
HEARD = {"say": UserSaid, "note": NoteAdded}


def worked(folder: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "tests.session.command_worker", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, timeout=300, check=False).returncode


@pytest.mark.parametrize("what", ["say", "note"])
@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_command_whose_owner_is_killed_around_its_recording_counts_once(
    tmp_path: Path, what: str, killed: str
) -> None:
    assert worked(tmp_path, what, killed) == -signal.SIGKILL
    (left,) = Inbox(LocalFiles(tmp_path)).waiting()
    assert left.is_taken
    for _ in range(2):
        assert worked(tmp_path, what) == 0
    stage = Stage(tmp_path)
    (heard,) = stage.events(HEARD[what])
    assert (heard.text, heard.command) == (f"what I {what}", left.id)  # pyright: ignore[reportAttributeAccessIssue]
    assert not list(Inbox(LocalFiles(tmp_path)).waiting())
    assert [end.ending for end in stage.events(TurnEnded)] == (["done"] if what == "say" else [])


def test_a_stop_whose_owner_died_ends_the_turn_when_the_session_is_opened(tmp_path: Path) -> None:
    stage, inbox = (
        Stage(tmp_path, calls(call("do", {"what": "x"})), says("Done.")),
        Inbox(LocalFiles(tmp_path)),
    )
    assert stage.take("go").ending == "done"
    killed = stage.killed_after(tmp_path / "again", stage.seq(CallEnded))
    inbox.leave(StopCommand(), BEA)
    (left,) = inbox.waiting()
    inbox.take(left)

    async def opened() -> None:
        async with killed.opened(inbox=inbox) as session:
            assert not session.state.is_turn_open

    asyncio.run(opened())
    assert [(end.ending, end.origin) for end in killed.events(TurnEnded)] == [("interrupted", BEA)]
    assert not list(inbox.waiting())
    assert killed.take(inbox=inbox).ending == "done"


def test_a_stop_that_was_carried_out_does_not_stop_the_next_turn(tmp_path: Path) -> None:
    stage, inbox = Stage(tmp_path, says("One."), says("Two.")), Inbox(LocalFiles(tmp_path))
    stage.take("go")
    inbox.leave(StopCommand(), BEA)
    assert stage.take("again", inbox=inbox).ending == "done"


def test_what_is_said_starts_a_turn_and_what_is_noted_does_not(tmp_path: Path) -> None:
    stage, inbox = Stage(tmp_path, says("Done.")), Inbox(LocalFiles(tmp_path))

    async def told() -> None:
        async with stage.opened(inbox=inbox) as session:
            inbox.leave(NoteCommand("the server is slow"), BEA)
            await wait_for(session, NoteAdded)
            assert not session.is_running
            inbox.leave(SayCommand("go"), BEA)
            await wait_for(session, TurnEnded)

    asyncio.run(told())
    assert texts(stage.sent()) == ["user: [note from user] the server is slow", "user: go"]
    assert [said.origin for said in (*stage.events(UserSaid), *stage.events(NoteAdded))] == [BEA, BEA]


def test_what_two_tasks_of_a_process_find_at_once_is_said_once(tmp_path: Path) -> None:
    stage, inbox = Stage(tmp_path, says("Done."), says("Twice.")), Inbox(LocalFiles(tmp_path))

    async def told() -> None:
        async with stage.opened(inbox=inbox) as session:
            inbox.leave(SayCommand("go", is_queued=True), BEA)
            runtime = runtime_of(session)
            async with session._rewriting:  # what is said waits for this
                finding = [asyncio.ensure_future(carry_out(session, runtime)) for _ in range(3)]
                while not any(left.is_taken for left in inbox.waiting()):
                    await asyncio.sleep(0)
                for _ in range(50):  # all have looked meanwhile whether it is on record
                    await runtime.journal.last_seq()
            await asyncio.gather(*finding)
            await wait_for(session, TurnEnded)

    asyncio.run(told())
    assert [said.text for said in stage.events(UserSaid)] == ["go"]


def test_what_is_just_being_recorded_when_a_session_closes_is_said_once(tmp_path: Path) -> None:
    stage, inbox = Stage(tmp_path, says("Done.")), Inbox(LocalFiles(tmp_path))
    stage.take("go")

    async def closed() -> None:
        async with stage.opened(inbox=inbox) as session:
            journal = runtime_of(session).journal
            other = apsw.Connection(str(stage.store.shelf.folder / SESSION / FILE_NAME))
            other.execute("BEGIN IMMEDIATE")  # what is recorded waits for this
            inbox.leave(SayCommand("and then"), BEA)
            while not any(left.is_taken for left in inbox.waiting()):
                await asyncio.sleep(0)

            async def let_go() -> None:
                for _ in range(100):  # the session that closes has looked meanwhile whether it is on record
                    await journal.last_seq()
                other.close()

            letting_go = asyncio.ensure_future(let_go())
        await letting_go

    asyncio.run(closed())
    assert [said.text for said in stage.events(UserSaid)] == ["go", "and then"]


def test_an_answer_counts_when_it_was_left_before_a_new_message(tmp_path: Path) -> None:
    stage = Stage(tmp_path, calls(call("publish", {"what": "x"})), says("Done."), says("More."))
    inbox = Inbox(LocalFiles(tmp_path))

    async def told() -> None:
        async with stage.opened(inbox=inbox) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(take(session, "go"))
            asked = await wait_for(session, ApprovalAsked)
            sha256 = asked.arguments_sha256
            given = ApprovalGiven(call=asked.call, arguments_sha256=sha256, decision="allow", origin=BEA)
            inbox.leave(AnswerCommand(given), BEA)
            inbox.leave(SayCommand("and then this"), BEA)
            await turn

    asyncio.run(told())
    assert stage.effects == ["x"]
    assert [said.text for said in stage.events(UserSaid)] == ["go", "and then this"]


def test_a_stop_without_a_running_turn_is_refused_with_the_reason(tmp_path: Path) -> None:
    stage, inbox = Stage(tmp_path), Inbox(LocalFiles(tmp_path))

    async def told() -> str:
        async with stage.opened(inbox=inbox):
            left = inbox.leave(StopCommand(), BEA)
            while inbox.is_pending(left):
                await asyncio.sleep(0)
            return inbox.refusal_of(left)

    assert asyncio.run(told()) == "no turn is running"


def test_what_is_said_to_a_goal_between_two_turns_waits_for_the_next_one(tmp_path: Path) -> None:
    stage, inbox = (
        Stage(tmp_path, calls(call("publish", {"what": "x"})), says("Done.")),
        Inbox(LocalFiles(tmp_path)),
    )

    async def told() -> None:
        async with stage.opened(inbox=inbox) as session:
            await runtime_of(session).record(GoalSet(text="make it"))
            early = inbox.leave(SayCommand("hurry"), BEA)
            await carry_out(session, runtime_of(session))
            assert inbox.is_pending(early)
            await take(session, "go")

    asyncio.run(told())
    order = [type(item.event) for item in stage.journal() if isinstance(item.event, UserSaid | TurnStarted)]
    assert order == [UserSaid, TurnStarted, UserSaid]


def test_each_line_of_a_chat_gets_a_turn_of_its_own_behind_what_only_a_chat_can_do(tmp_path: Path) -> None:
    stage, inbox = Stage(tmp_path, says("One."), says("Two."), says("Three.")), Inbox(LocalFiles(tmp_path))

    def leave(text: str, *, needs_chat: bool = False) -> str:
        return inbox.leave(SayCommand(text, is_queued=True, is_line=True, needs_chat=needs_chat), BEA)

    async def told() -> None:
        async with stage.opened(inbox=inbox) as session:
            leave("two")
            leave("three")
            held = leave("/compact", needs_chat=True)
            last = leave("four")
            await session.say("one")
            while len(stage.events(TurnEnded)) < 3:
                await asyncio.sleep(0)
            await carry_out(session, runtime_of(session))
            assert inbox.is_pending(held)
            assert inbox.is_pending(last)

    asyncio.run(told())
    order = [type(item.event) for item in stage.journal() if isinstance(item.event, UserSaid | TurnEnded)]
    assert order == [UserSaid, TurnEnded] * 3


def test_a_line_of_a_chat_waits_while_the_last_turn_is_not_done(tmp_path: Path) -> None:
    stage = Stage(tmp_path, calls(call("publish", {"what": "x"})), says("Done."))
    inbox = Inbox(LocalFiles(tmp_path))

    async def told() -> None:
        async with stage.opened(inbox=inbox) as session:
            await session.say("go")
            await wait_for(session, ApprovalAsked)
            line = inbox.leave(SayCommand("more", is_queued=True, is_line=True), BEA)
            await session.stop()
            await carry_out(session, runtime_of(session))
            assert inbox.is_pending(line)
        async with stage.opened(inbox=inbox) as session:
            await carry_out(session, runtime_of(session))
            assert inbox.is_pending(line)

    asyncio.run(told())
    assert [said.text for said in stage.events(UserSaid)] == ["go"]


def test_a_session_that_sleeps_looks_at_its_inbox_once_a_second_at_most() -> None:
    state = State()
    assert look_again_s(state) >= 1
    state.apply(Recorded(1, 1, TurnStarted(turn=1)))
    assert look_again_s(state) < 0.5
    state.apply(Recorded(2, 2, WaitStarted(wait="w", conditions=(OnTime(at_us=9),))))
    assert look_again_s(state) >= 1

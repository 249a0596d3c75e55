"""Answers that come from another process: durable, checked like any other, and counted once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.approvals.grants import GrantFile
from mainspring.disk.inbox import AnswerCommand, Inbox, LeftCommand
from mainspring.disk.shared_files import LocalFiles
from mainspring.events import ApprovalAsked, ApprovalGiven, CallStarted
from tests.stage import Stage, call, calls, says, take, wait_for

ASKS = calls(call("publish", {"what": "x"}))


def answer(question: ApprovalAsked, **fields: Any) -> ApprovalGiven:
    usual: dict[str, Any] = {
        "call": question.call,
        "arguments_sha256": question.arguments_sha256,
        "decision": "allow",
        "by": "elsewhere",
    }
    return ApprovalGiven(**(usual | fields))


def taken(inbox: Inbox) -> list[LeftCommand]:
    return [got for left in inbox.waiting() if (got := inbox.take(left))]


async def nobody(question: ApprovalAsked) -> None:
    return None


def test_an_answer_left_by_another_process_reaches_the_one_that_waits(tmp_path: Path) -> None:
    stage, inbox = Stage(tmp_path, ASKS, says("Done.")), Inbox(LocalFiles(tmp_path))

    async def answered() -> tuple[bool, str]:
        async with stage.opened(inbox=inbox) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(take(session, "go"))
            left = inbox.leave(AnswerCommand(answer(await wait_for(session, ApprovalAsked))))
            assert (await turn).ending == "done"
            return inbox.is_pending(left), inbox.refusal_of(left)

    assert asyncio.run(answered()) == (False, "")
    assert stage.effects == ["x"]
    assert [given.by for given in stage.events(ApprovalGiven)] == ["elsewhere"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"arguments_sha256": "0" * 64}, "it was given for other arguments"),
        ({"pattern": "x *", "scope": "session"}, "this call can be allowed only as it is, not by a pattern"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(
    tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    stage, inbox = Stage(tmp_path, ASKS, says("Done.")), Inbox(LocalFiles(tmp_path))

    async def answered() -> str:
        grants = GrantFile(LocalFiles(tmp_path))
        async with stage.opened(inbox=inbox, grants=grants) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(take(session, "go"))
            question = await wait_for(session, ApprovalAsked)
            wrong, right = (
                inbox.leave(AnswerCommand(answer(question, **fields))),
                inbox.leave(AnswerCommand(answer(question))),
            )
            await turn
            assert not inbox.is_pending(right)
            return inbox.refusal_of(wrong)

    assert asyncio.run(answered()) == why
    assert stage.effects == ["x"]


def test_of_two_answers_the_first_counts_and_the_second_is_told_so(tmp_path: Path) -> None:
    stage, inbox = Stage(tmp_path, ASKS, says("Done.")), Inbox(LocalFiles(tmp_path))

    async def answered() -> list[str]:
        async with stage.opened(inbox=inbox) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(take(session, "go"))
            question = await wait_for(session, ApprovalAsked)
            both = (answer(question), answer(question, decision="reject"))
            left = [inbox.leave(AnswerCommand(given)) for given in both]
            await turn
            return [inbox.refusal_of(each) for each in left]

    assert asyncio.run(answered()) == ["", "it was answered already"]
    assert stage.effects == ["x"]


def blocked(folder: Path) -> tuple[Stage, ApprovalAsked]:
    stage = Stage(folder, ASKS, says("Done."))
    assert stage.take("go", approver=nobody).ending == "blocked"
    return stage, stage.events(ApprovalAsked)[0]


@pytest.mark.parametrize("is_taken", [False, True])
def test_an_answer_whose_owner_died_before_it_was_recorded_counts_when_the_session_goes_on(
    tmp_path: Path, is_taken: bool
) -> None:
    stage, question = blocked(tmp_path)
    inbox = Inbox(LocalFiles(tmp_path))
    left = inbox.leave(AnswerCommand(answer(question)))
    if is_taken:
        taken(inbox)
    assert stage.take(approver=nobody, inbox=inbox).ending == "done"
    assert stage.effects == ["x"]
    assert not inbox.is_pending(left)


def test_an_answer_whose_owner_died_after_it_was_recorded_does_not_count_again(tmp_path: Path) -> None:
    stage, question = blocked(tmp_path)
    inbox = Inbox(LocalFiles(tmp_path))
    stage.take(approver=nobody, inbox=inbox) if inbox.leave(AnswerCommand(answer(question))) else None
    left = inbox.leave(AnswerCommand(answer(question)))
    taken(inbox)
    asyncio.run(opened_and_closed(stage, inbox))
    assert inbox.refusal_of(left)
    assert len(stage.events(ApprovalGiven)) == len(stage.events(CallStarted)) == 1


async def opened_and_closed(stage: Stage, inbox: Inbox) -> None:
    async with stage.opened(inbox=inbox):
        return


def test_an_answer_that_nobody_takes_can_be_withdrawn_and_one_that_is_taken_cannot(tmp_path: Path) -> None:
    given = AnswerCommand(ApprovalGiven(call="c1", arguments_sha256="", decision="allow"))
    inbox = Inbox(LocalFiles(tmp_path))
    first, second = inbox.leave(given), inbox.leave(given)
    assert inbox.withdraw(first)
    (left,) = taken(inbox)
    assert not inbox.withdraw(second)
    assert inbox.is_pending(second)
    inbox.done(left)
    assert not inbox.is_pending(second)


def test_what_is_no_answer_is_refused_and_what_is_private_stays_so(tmp_path: Path) -> None:
    inbox = Inbox(LocalFiles(tmp_path))
    left = inbox.leave(AnswerCommand(ApprovalGiven(call="c1", arguments_sha256="", decision="allow")))
    file = tmp_path / "inbox" / f"{left}.json"
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(msgspec.json.encode({"decision": "perhaps"}))
    assert not taken(inbox)
    assert "cannot be read" in inbox.refusal_of(left)

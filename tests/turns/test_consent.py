"""Grants and secrets in a session: what is kept, what is shown, and what a crash leaves of both."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring.approvals import ModePolicy
from mainspring.approvals.grants import GrantFile
from mainspring.approvals.policy import LayeredPolicy
from mainspring.disk.shared_files import LocalFiles
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, CallStarted, Event, OutputDelta, TurnEnded
from mainspring.secrets.vault import PLACEHOLDER, Vault, open_vault
from mainspring.tools import CallContext
from mainspring.tools.schema import tool
from tests.stage import Stage, call, calls, results, says, take, wait_for

KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 3
ASKS = calls(call("publish", {"what": "x"}))


def always(**fields: Any) -> Any:
    async def approver(question: ApprovalAsked) -> ApprovalGiven:
        return ApprovalGiven(
            call=question.call,
            arguments_sha256=question.arguments_sha256,
            decision="allow",
            scope="session",
            **fields,
        )

    return approver


async def nobody(question: ApprovalAsked) -> None:
    return None


def consent(folder: Path) -> dict[str, Any]:
    """A policy with grants, and where they are kept."""
    file = GrantFile(LocalFiles(folder))
    policy = LayeredPolicy(
        ModePolicy("ask"),
        home="/home/me",
        grants=lambda proposed: file.live(session=proposed.session, workspace="/", now_us=1),
    )
    return {"policy": policy, "grants": file}


def test_always_covers_the_next_call_and_every_later_opening(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path / "s", ASKS, calls(call("publish", {"what": "y"})), says("Done."), ASKS, says("Again.")
    )
    stage.take("go", approver=always(), **consent(tmp_path))
    stage.take("and again", approver=nobody, **consent(tmp_path))
    assert stage.effects == ["x", "y", "x"]
    assert len(stage.events(ApprovalGiven)) == 1


def test_an_answer_on_record_is_kept_as_a_grant_after_a_crash_and_kept_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", ASKS, says("Done."))
    stage.take("go", approver=always(), **consent(tmp_path / "first"))
    (kept,) = GrantFile(LocalFiles(tmp_path / "first")).all()
    again = stage.killed_after(tmp_path / "again", stage.seq(ApprovalGiven))
    again.take(approver=nobody, **consent(tmp_path / "second"))
    (after,) = GrantFile(LocalFiles(tmp_path / "second")).all()
    assert (after.id, after.tool, after.scope) == (kept.id, "publish", "session")
    assert stage.effects == ["x", "x"], "once in each of the two worlds"


def test_a_session_without_a_place_for_grants_says_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ASKS, says("Done."))
    with pytest.raises(UsageError, match="only for once"):
        stage.take("go", approver=always())
    assert stage.effects == []


def test_an_answer_to_a_blocked_turn_is_recorded_and_the_turn_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ASKS, says("Done."))
    assert stage.take("go", approver=nobody).ending == "blocked"

    async def answered() -> str:
        async with stage.opened(approver=nobody) as session:
            (question,) = session.state.requests.open.values()
            given = ApprovalGiven(
                call=question.call, arguments_sha256=question.arguments_sha256, decision="allow"
            )
            await session.answer(given)
            with pytest.raises(UsageError, match="answered already"):
                await session.answer(given)
            return (await take(session)).ending

    assert asyncio.run(answered()) == "done"
    assert stage.effects == ["x"]


def test_an_answer_can_come_as_soon_as_the_question_is_heard_of(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ASKS, says("Done."))

    async def answered() -> None:
        async with stage.opened() as session:
            await session.say("go")
            question = await wait_for(session, ApprovalAsked)
            await session.approve(question.call, arguments_sha256=question.arguments_sha256)
            await wait_for(session, CallStarted)
            await wait_for(session, TurnEnded)

    asyncio.run(answered())
    assert stage.effects == ["x"]
    assert [given.decision for given in stage.events(ApprovalGiven)] == ["allow"]


def test_a_question_that_nobody_answers_in_time_is_a_no(tmp_path: Path) -> None:
    async def asleep(question: ApprovalAsked) -> None:
        await asyncio.Event().wait()

    stage = Stage(tmp_path, ASKS, says("Done."))
    assert stage.take("go", approver=asleep, timeout_s=0.05).ending == "done"
    assert results(stage.sent()[-1]) == [("Not run: nobody approved it in time.", True)]


def test_what_is_sent_to_others_gets_no_secrets(tmp_path: Path) -> None:
    async def send(url: str) -> str:
        """Asks a server for something."""
        sent.append(url)
        return "ok"

    sent: list[str] = []
    stage = Stage(tmp_path, calls(call("send", {"url": f"https://example.com/?q={KEY}"})), says("Done."))
    stage.tools.append(tool(send, effect="network"))
    stage.take("go", policy=ModePolicy("yolo", max_cost_usd=1.0))
    assert PLACEHOLDER.fullmatch(sent[0].removeprefix("https://example.com/?q="))


def test_live_output_is_shown_without_secrets_however_it_is_cut(tmp_path: Path) -> None:
    async def leak(place: CallContext) -> str:
        """Prints a key in small pieces."""
        for sign in f"the key is {KEY} and no more\n":
            place.show(sign)
        return f"printed {KEY}"

    stage = Stage(tmp_path, calls(call("leak")), says("Done."))
    stage.tools.append(tool(leak, effect="read"))

    async def shown() -> list[Event]:
        async with stage.opened() as session:
            return [event async for event in session.run("go")]

    events = asyncio.run(shown())
    live = "".join(event.text for event in events if isinstance(event, OutputDelta))
    assert KEY not in "".join(map(str, events))
    assert PLACEHOLDER.sub("KEY", live) == "the key is KEY and no more\n"


def test_what_was_hidden_is_put_back_after_a_crash_and_never_written_by_a_vault_that_forgot(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path / "s", calls(call("do", {"what": KEY})), says("Done."))
    stage.take("go", vault=open_vault(LocalFiles(tmp_path), {}))
    assert KEY not in str(stage.journal())
    started = stage.seq(CallStarted)
    for vault, effects in ((open_vault(LocalFiles(tmp_path), {}), [KEY, KEY]), (Vault(), [KEY, KEY])):
        again = stage.killed_after(tmp_path / str(id(vault)), started - 1)
        again.take(vault=vault)
        assert stage.effects == effects

"""What would be allowed, what is asked, and answers from elsewhere; as functions on values."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import mainspring
from mainspring.app.operations import approvals, approve
from mainspring.app.operations.attachments import attachment
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, TurnEnded
from mainspring.settings import load_config
from tests.workspace.sessions import World, say, shell

TEMPLATE = '[steps.tests]\ncommands = ["pytest *", "git status $"]\n'


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, shell("touch made.txt"), say("made"))
    world.home.mkdir()
    (world.home / "config.toml").write_text(TEMPLATE)
    world.config = load_config(dict(world.config.environment))
    return world


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["pytest", "-q"], True),
        (["git", "status"], True),
        (["git", "status", "--short"], False),
        (["rm", "-rf", "/"], False),
    ],
)
def test_a_template_allows_its_commands_only(world: World, argv: list[str], expected: bool) -> None:
    is_fine, reason = approvals.is_allowed(argv, cwd=world.root, template="tests", config=world.config)
    assert is_fine is expected
    assert reason
    if not expected:
        assert "tests" in reason


def test_without_a_template_the_policy_decides_and_nothing_is_run(world: World) -> None:
    is_fine, _ = approvals.is_allowed(["touch", "made.txt"], cwd=world.root, config=world.config)
    assert is_fine
    assert not (world.root / "made.txt").exists()
    is_fine, _ = approvals.is_allowed(["rm", "-rf", "/"], cwd=world.root, config=world.config)
    assert not is_fine
    with pytest.raises(UsageError, match="no template"):
        approvals.is_allowed(["ls"], cwd=world.root, template="none", config=world.config)
    with pytest.raises(UsageError, match="not a folder"):
        approvals.is_allowed(["ls"], cwd=world.root / "gone", config=world.config)


def test_the_rules_in_force_name_their_files_and_what_is_built_in(world: World) -> None:
    (world.home / "approvals.toml").write_text('[[rule]]\nanswer = "deny"\ncommand = "make deploy"\n')
    found = approvals.rules_in_force(world.config, world.root)
    user, project = found.files
    assert (user.source, len(user.rules)) == ("user", 1)
    assert (project.source, project.rules) == ("project", ())
    assert found.dangers
    verdict = approvals.judge_command(world.config, "make deploy", folder=world.root)
    assert verdict.answer == "deny"


def test_a_grant_that_is_not_there_cannot_be_revoked(world: World) -> None:
    assert approvals.list_grants(world.config) == ()
    with pytest.raises(UsageError):
        approvals.revoke_grant(world.config, "g1")


async def nobody(_: ApprovalAsked) -> None:
    return None


def blocked(world: World) -> str:
    async def running() -> str:
        opened = mainspring.open(
            world.root, model=world.model, mode="ask", approver=nobody, config=world.config
        )
        async with opened as session:
            ended = [event async for event in session.run("make it")][-1]
            assert isinstance(ended, TurnEnded)
            assert ended.ending == "blocked"
            return session.id

    return asyncio.run(running())


def test_an_answer_to_a_session_that_nobody_runs_is_given_by_whoever_goes_on(world: World) -> None:
    session = blocked(world)

    async def answering() -> TurnEnded:
        found = await approve.prepare_answers(world.config, session[:6], approve.ApprovalReply())
        (given,) = found.answers
        assert (found.session, given.decision) == (session, "allow")
        assert await approve.deliver_answer(world.config, session, given) == ""
        async with mainspring.open(session=session, approver=nobody, config=world.config) as running:
            await running.answer(given)
            last = [event async for event in running.run()][-1]
        assert isinstance(last, TurnEnded)
        return last

    assert asyncio.run(answering()).ending == "done"
    assert (world.root / "made.txt").exists()


def test_an_answer_that_does_not_fit_is_refused_before_it_is_given(world: World) -> None:
    session = blocked(world)

    def prepared(reply: approve.ApprovalReply, call: str = "") -> ApprovalGiven:
        found = asyncio.run(approve.prepare_answers(world.config, session, reply, call=call))
        return found.answers[0]

    with pytest.raises(UsageError, match="--scope"):
        prepared(approve.ApprovalReply(pattern="touch *"))
    with pytest.raises(UsageError, match="does not wait"):
        prepared(approve.ApprovalReply(), "cnothing")
    assert prepared(approve.ApprovalReply(scope="session", lasts="8h")).expires_us
    refused = prepared(approve.ApprovalReply(decision="reject", feedback="too risky"))
    assert (refused.decision, refused.feedback) == ("reject", "too risky")


def test_what_is_already_decided_is_judged_again(world: World) -> None:
    session = blocked(world)
    (compared,) = asyncio.run(approvals.judge_session(world.config, session, mode="plan"))
    assert compared.past.answered == "ask"
    assert compared.past.proposed.command == "touch made.txt"


def test_content_is_attached_as_what_it_is() -> None:
    assert attachment("a/notes.md", b"text").media_type == "text/plain"
    assert attachment("x", b"%PDF-1.7").media_type == "application/pdf"
    with pytest.raises(UsageError, match="neither"):
        attachment("x.bin", b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="neither"):
        attachment("looks-like-text", b"\x7fELF\x02\x01\x01\x00\x00")

"""Approvals by policy: named people, N of M, and nobody allows what their own command led to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mainspring
from mainspring.app.operations.answers import Approver, nobody
from mainspring.app.operations.approvals import judge_command, list_grants
from mainspring.app.operations.approve import (
    ApprovalReply,
    OpenAnswers,
    open_questions,
    prepare_answers,
    record_answers,
)
from mainspring.app.operations.audit import audit_lines
from mainspring.app.operations.devices import Access
from mainspring.app.operations.sessions import journal_of
from mainspring.approvals.answers import Requests
from mainspring.approvals.quorums import NotEntitled
from mainspring.errors import AccessRefused, ConfigError, UsageError
from mainspring.events import (
    ApprovalAdded,
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    GoalSet,
    NoteAdded,
    Origin,
    Recorded,
    TurnEnded,
    UserSaid,
)
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.people.team import parse_team
from mainspring.serve.answer_links import AnswerLinks, LinkAnswer
from mainspring.serve.hub import Hub
from mainspring.serve.values import Answer
from mainspring.settings import Config
from tests.people.teams import Team
from tests.stage import call, calls, says

PEOPLE = """
[groups]
leads = ["local:bob", "local:eve"]
[roles]
developer = ["local:ada", "local:dan", "@leads"]
admin = ["local:admin"]
"""
TWO = '[[approval]]\nname = "two"\nby = ["local:ada", "@leads"]\nof = 2\nnot_own = true\n'
WRITE = call("write", {"path": "made.txt", "content": "made"}, "w1")


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


async def turn(
    config: Config, team: Team, text: str = "", *replies: Any, session: str = "", approver: Approver = nobody
) -> tuple[str, str]:
    """A turn in the mode `ask`; gives the session, and how the turn ended."""
    model = ScriptedModel(Script(replies or (calls(WRITE), says("done"))))
    opened = mainspring.open(
        team.workspace, model=model, config=config, mode="ask", session=session, approver=approver
    )
    async with opened as made:
        reply = await made.ask(text)
        return made.id, reply.ending


async def answer(config: Config, session: str, **reply: Any) -> OpenAnswers:
    """What `mainspring approve` does in a session that nobody runs, but for going on."""
    prepared = await prepare_answers(config, session, ApprovalReply(**reply))
    await record_answers(config, session, prepared.answers)
    return prepared


async def recorded(config: Config, session: str) -> list[Recorded]:
    async with journal_of(config, session) as reader:
        return list(await reader.read())


async def of_kind(config: Config, session: str, kind: type[Any]) -> list[Any]:
    return [each.event for each in await recorded(config, session) if isinstance(each.event, kind)]


def run(team: Team, policy: str, story: Callable[[], Any]) -> Any:
    team.signs(PEOPLE + policy)
    return asyncio.run(story())


def test_two_of_three_must_agree_and_the_owner_is_none_of_them(team: Team) -> None:
    ada, bob, eve = (team.config(name) for name in ("ada", "bob", "eve"))

    async def story() -> None:
        session, ending = await turn(ada, team, "make it")
        assert ending == "blocked"
        (asked,) = await open_questions(ada, session)
        assert "2 of local:bob, local:eve, not whose command led to it" in asked.reason
        with pytest.raises(NotEntitled, match="local:ada may not allow what their own command led to"):
            await answer(ada, session)
        first = await answer(bob, session)
        assert not first.decides
        assert "local:bob said yes; it takes 1 of local:eve" in next(iter(first.missing.values()))
        (asked,) = await open_questions(ada, session)
        assert "local:bob said yes" in asked.reason
        with pytest.raises(NotEntitled, match="local:bob said yes already"):
            await answer(bob, session)
        assert not (team.workspace / "made.txt").exists()
        assert (await answer(eve, session)).decides
        _, ending = await turn(ada, team, "", says("done"), session=session)
        assert ending == "done"
        assert (team.workspace / "made.txt").read_text() == "made"
        (given,) = await of_kind(ada, session, ApprovalGiven)
        assert given.agreed == ("local:bob", "local:eve")
        (added,) = await of_kind(ada, session, ApprovalAdded)
        assert (added.person, added.origin.user) == ("local:bob", "bob")

    run(team, TWO, story)


def test_going_on_before_all_agreed_runs_nothing(team: Team) -> None:
    ada, bob = team.config("ada"), team.config("bob")

    async def story() -> None:
        session, _ = await turn(ada, team, "make it")
        await answer(bob, session)
        _, ending = await turn(ada, team, "", says("done"), session=session)
        assert ending == "blocked"
        assert not (team.workspace / "made.txt").exists()
        assert len(await of_kind(ada, session, ApprovalAsked)) == 1

    run(team, TWO, story)


def test_one_no_ends_it_and_strangers_have_none(team: Team) -> None:
    ada, bob, dan, eve = (team.config(name) for name in ("ada", "bob", "dan", "eve"))

    async def story() -> None:
        session, _ = await turn(ada, team, "make it")
        with pytest.raises(NotEntitled, match="local:dan is none of local:ada, local:bob, local:eve"):
            await answer(dan, session, decision="reject")
        await answer(bob, session)
        await answer(eve, session, decision="reject", feedback="not today")
        _, ending = await turn(ada, team, "", says("a pity"), session=session)
        assert ending == "done"
        assert not (team.workspace / "made.txt").exists()
        with pytest.raises(UsageError, match="does not wait for an answer"):
            await answer(bob, session)

    run(team, TWO, story)


def test_who_wanted_it_may_take_it_back(team: Team) -> None:
    ada = team.config("ada")

    async def story() -> None:
        session, _ = await turn(ada, team, "make it")
        assert (await answer(ada, session, decision="reject")).decides

    run(team, TWO, story)


def test_whoever_said_something_in_the_turn_is_one_of_its_owners() -> None:
    """Otherwise a word of another person would let the first allow what they wanted."""
    ada, bob, eve = (UserSaid(text="go", origin=Origin(user=name)) for name in ("ada", "bob", "eve"))
    requests = reduce(Requests.after, (ada, TurnEnded(turn=1, ending="blocked"), bob), Requests())
    assert requests.everybody == ("local:ada", "local:bob")
    over = reduce(Requests.after, (TurnEnded(turn=1, ending="done"), eve), requests)
    assert over.everybody == ("local:eve",)
    goal = reduce(Requests.after, (GoalSet(text="g", origin=Origin(user="dan")),), over)
    assert goal.everybody == ("local:eve", "local:dan")


def test_a_note_and_a_changed_goal_are_of_those_who_led_to_a_call() -> None:
    """Otherwise a note that says what to do, or a goal that another person goes on with, hides who wanted it."""
    ada, bob, eve = (Origin(user=name) for name in ("ada", "bob", "eve"))
    events = (
        UserSaid(text="go", origin=bob),
        NoteAdded(text="deploy it", origin=ada),
        NoteAdded(text="the tests pass", source="tests", origin=eve),
    )
    noted = reduce(Requests.after, events, Requests())
    assert noted.everybody == ("local:bob", "local:ada")
    between = reduce(
        Requests.after, (TurnEnded(turn=1, ending="done"), NoteAdded(text="x", origin=eve), events[0]), noted
    )
    assert between.everybody == ("local:eve", "local:bob")
    goals = (GoalSet(text="g", origin=ada), GoalSet(text="g", origin=eve))
    assert reduce(Requests.after, goals, Requests()).everybody == ("local:ada", "local:eve")


def test_whoever_led_to_the_work_of_an_agent_is_whoever_led_to_that_of_its_parent(team: Team) -> None:
    ada, dan = team.config("ada"), team.config("dan")

    async def story() -> None:
        parent_model = ScriptedModel(Script((says("wait"),)))
        async with mainspring.open(team.workspace, model=parent_model, config=ada) as parent:
            await parent.ask("have it made")
            model = ScriptedModel(Script((calls(WRITE), says("done"))))
            opened = mainspring.open(
                team.workspace, model=model, config=dan, mode="ask", approver=nobody, parent=parent
            )
            async with opened as child:
                await child.ask("make it")
            (asked,) = await of_kind(ada, child.id, ApprovalAsked)
            assert asked.owners == ("local:dan", "local:ada")

    run(team, TWO, story)


def test_two_entries_that_fit_both_hold(team: Team) -> None:
    more = '[[approval]]\nname = "dan"\nby = ["local:dan"]\ncall = [{ tool = "write" }]\n'
    other = '[[approval]]\nname = "other"\nby = ["local:admin"]\ncall = [{ command = "git push" }]\n'
    ada, bob, dan = team.config("ada"), team.config("bob"), team.config("dan")

    async def story() -> None:
        session, _ = await turn(ada, team, "make it")
        (asked,) = await of_kind(ada, session, ApprovalAsked)
        assert [each.rule.rpartition(" ")[2] for each in asked.quorums] == ["two", "dan"]
        assert not (await answer(bob, session)).decides
        assert (await answer(dan, session)).decides

    run(team, TWO.replace("of = 2", "of = 1") + more + other, story)


def test_an_always_reaches_as_far_as_all_of_them_said(team: Team) -> None:
    ada, bob, eve = team.config("ada"), team.config("bob"), team.config("eve")

    async def story(second: str) -> None:
        session, _ = await turn(ada, team, "make it")
        await answer(bob, session, scope="forever")
        assert list_grants(ada) == ()
        await answer(eve, session, scope=second)
        await turn(ada, team, "", says("done"), session=session)

    run(team, TWO, lambda: story("once"))
    assert list_grants(ada) == ()
    asyncio.run(story("project"))
    assert [each.scope for each in list_grants(ada)] == ["project"]


def test_an_edit_must_be_agreed_to_by_saying_no(team: Team) -> None:
    ada, bob = team.config("ada"), team.config("bob")

    async def story() -> None:
        session, _ = await turn(ada, team, "make it")
        with pytest.raises(UsageError, match="several people must agree"):
            await answer(bob, session, edit='{"path": "other.txt", "content": ""}')

    run(team, TWO, story)


def test_an_edit_does_not_get_round_whose_yes_the_edited_call_takes(team: Team) -> None:
    ada, dan = team.config("ada"), team.config("dan")
    precious = TWO + 'call = [{ path = "precious.txt" }]\n'

    async def story(path: str) -> str:
        session, _ = await turn(ada, team, "make it")
        await answer(dan, session, edit=f'{{"path": "{path}", "content": "made"}}')
        _, ending = await turn(ada, team, "", says("a pity"), session=session)
        (ended,) = await of_kind(ada, session, CallEnded)
        return ended.output if ending == "done" else ending

    told = run(team, precious, lambda: story("precious.txt"))
    assert "the edited call takes 2 of local:ada, local:bob, local:eve" in told
    assert not (team.workspace / "precious.txt").exists()
    asyncio.run(story("fine.txt"))
    assert (team.workspace / "fine.txt").read_text() == "made"


def test_that_nobody_answered_is_for_nobody_to_say() -> None:
    """Who may not answer could else end a question of others over the network."""
    for decision in ("expire", "abandon"):
        with pytest.raises(msgspec.ValidationError, match="decision"):
            msgspec.convert({"reply": {"decision": decision}}, Answer)


def test_a_person_at_the_session_is_told_why_their_yes_does_not_count_and_that_is_logged(team: Team) -> None:
    ada, reasons = team.config("ada"), list[str]()

    async def approver(question: ApprovalAsked) -> ApprovalGiven | None:
        reasons.append(question.reason)
        if len(reasons) > 2:
            return None
        return ApprovalGiven(call=question.call, arguments_sha256=question.arguments_sha256, decision="allow")

    async def story() -> str:
        _, ending = await turn(ada, team, "make it", approver=approver)
        lines = [each async for each in audit_lines(team.config("admin"), refused=True)]
        assert {each.entry.operation for each in lines} == {"approve"}
        assert all("approval two" in each.entry.rule for each in lines)
        assert len(lines) == 2
        return ending

    assert run(team, TWO, story) == "blocked"
    assert "may not allow what their own command led to" in reasons[1]
    assert not (team.workspace / "made.txt").exists()


def test_answers_that_are_left_for_a_running_session_add_up(team: Team) -> None:
    ada, bob, eve = team.config("ada"), team.config("bob"), team.config("eve")

    async def story() -> None:
        asked = asyncio.Event()

        async def waits(_: ApprovalAsked) -> None:
            asked.set()
            await asyncio.Event().wait()

        model = ScriptedModel(Script((calls(WRITE), says("done"))))
        opened = mainspring.open(team.workspace, model=model, config=ada, mode="ask", approver=waits)
        async with opened as session:
            working = asyncio.create_task(session.ask("make it"))
            await asked.wait()
            (question,) = await open_questions(ada, session.id)
            yes = ApprovalGiven(
                call=question.call, arguments_sha256=question.arguments_sha256, decision="allow"
            )
            for config in (bob, eve):
                await session.answer(
                    msgspec.structs.replace(yes, origin=config.origin, agreed=("local:eve",))
                )
                asked.clear()
                if config is bob:
                    await asked.wait()
            assert (await working).ending == "done"
            (given,) = await of_kind(ada, session.id, ApprovalGiven)
            assert given.agreed == ("local:bob", "local:eve")

    run(team, TWO, story)


def test_a_link_does_not_get_round_it(team: Team) -> None:
    ada, bob = team.config("ada"), team.config("bob")

    async def story() -> None:
        session, _ = await turn(ada, team, "make it")
        (question,) = await open_questions(ada, session)
        access = Access(bob)
        code = access.link(session, question.call)
        async with Hub() as hub:
            links = AnswerLinks(bob, access, hub)
            with pytest.raises(AccessRefused, match="a link does not say who answers"):
                await links.answer(LinkAnswer(code=code, decision="allow"))
        assert not await of_kind(ada, session, ApprovalAdded)

    run(team, TWO, story)


def test_what_is_asked_without_such_an_entry_is_decided_by_the_first(team: Team) -> None:
    ada = team.config("ada")

    async def story() -> None:
        session, _ = await turn(ada, team, "make it")
        assert (await answer(ada, session)).decides
        (ended,) = await of_kind(ada, session, TurnEnded)
        assert ended.ending == "blocked"

    run(team, TWO + 'call = [{ command = "git push" }]\n', story)


def test_a_judgement_says_whose_yes_it_takes(team: Team) -> None:
    team.signs(PEOPLE + TWO + 'call = [{ command = "git push" }]\n')
    judged = {
        line: judge_command(team.config("ada"), line, folder=team.workspace, mode="ask")
        for line in ("git push", "ls && git push origin", "ls")
    }
    assert [bool(each.quorums) for each in judged.values()] == [True, True, False]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("of = 3", "it takes 3 people, and `by` names 2"),
        ('projects = ["nowhere"]', "there is no project 'nowhere'"),
        ('call = [{ command = "x", answer = "ask" }]', "has an answer"),
        ('call = [{ color = "red" }]', "color"),
    ],
)
def test_an_entry_that_cannot_be_met_is_not_valid(team: Team, entry: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        team.signs(f'{PEOPLE}[[approval]]\nname = "two"\nby = ["@leads"]\n{entry}\n')


def test_groups_stand_for_their_people_once(team: Team) -> None:
    policy = parse_team(f"serial = 1\n{PEOPLE}{TWO}", "policy.toml")
    (approval,) = policy.approvals_for(str(team.workspace))
    assert approval.by == ("local:ada", "local:bob", "local:eve")

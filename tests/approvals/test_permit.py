"""One table of permission, run through everybody who asks for it.

Each caller wants to make the file `wanted` in its workspace. Where a case does not apply to a caller, `SKIPPED`
says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.app.step import run_command
from mainspring.catalog.folder import SessionFiles
from mainspring.engines.settings import EngineSettings
from mainspring.errors import UsageError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CommandEnded,
    Event,
    Limits,
    SpendReserved,
    TurnEnded,
)
from mainspring.models import Price
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.tools.schema import tool
from tests.engines.house import House

WANTED, EDITED, FORBIDDEN = "wanted", "edited", "forbidden"
RULE = '[[rule]]\ntool = "{tool}"\nanswer = "{answer}"\nreason = "so says the rule"\n'
FORBIDS = """
[[rule]]
answer = "deny"
command = "touch forbidden"
[[rule]]
answer = "deny"
path = "**/forbidden"
"""


class Person:
    """Answers each question with the same fields; `answer` None is nobody. The start of an engine is not what
    the table is about unless it is the caller."""

    def __init__(self, *, is_engine: bool, **answer: Any) -> None:
        self.asked: list[ApprovalAsked] = []
        self._is_engine = is_engine
        self._answer = answer

    async def __call__(self, question: ApprovalAsked) -> ApprovalGiven | None:
        if question.tool == "engine" and not self._is_engine:
            return self._given(question, decision="allow")
        self.asked.append(question)
        fields = dict(self._answer)
        if fields.pop("is_asleep", False):
            await asyncio.Event().wait()
        if name := fields.pop("edited", ""):
            fields["edited_arguments"] = question.arguments.replace(WANTED, name)
        return self._given(question, **fields) if fields else None

    def _given(self, question: ApprovalAsked, **fields: Any) -> ApprovalGiven:
        usual: dict[str, Any] = {"call": question.call, "arguments_sha256": question.arguments_sha256}
        return ApprovalGiven(**(usual | fields))


async def by_session(house: House, person: Person, text: str = "go", **options: Any) -> list[Event]:
    async with house.opened(mode="ask", approver=person, **options) as session:
        return [event async for event in session.run(text)]


async def by_call(house: House, person: Person) -> list[Event]:
    asks = ScriptedReply(calls=(ScriptedCall("shell", {"command": "touch wanted"}),))
    model = ScriptedModel(Script(replies=(asks, ScriptedReply(text="Done.")) * 2))
    return await by_session(house, person, model=model)


async def by_step(house: House, person: Person) -> list[Event]:
    step = ("touch", WANTED)
    name = await run_command(step, folder=house.workspace, mode="ask", approver=person, config=house.config)
    file = SessionFiles(house.config.home / "steps").file(name)
    try:
        return [item.event for item in file.read()]
    finally:
        file.close()


async def by_engine(house: House, person: Person) -> list[Event]:
    return await by_session(house, person, engine="touching")


def by_acp(how: str) -> Callable[[House, Person], Coroutine[Any, Any, list[Event]]]:
    async def taken(house: House, person: Person) -> list[Event]:
        return await by_session(house, person, how, engine="acp_agent")

    return taken


CALLERS: dict[str, tuple[str, Callable[[House, Person], Coroutine[Any, Any, list[Event]]]]] = {
    "call": ("shell", by_call),
    "step": ("step", by_step),
    "engine": ("engine", by_engine),
    "acp permission": ("execute", by_acp("touch-itself")),
    "acp write": ("edit", by_acp("touch-by-write")),
    "acp terminal": ("execute", by_acp("touch-by-terminal")),
}
"""Callers by name: the tool that their question names, and how they get to it."""

RUN_BY_AGENT = "the agent runs it itself, so nothing else can be run in its place"
SKIPPED = {
    ("allow edited", "engine"): RUN_BY_AGENT,
    ("allow edited", "acp permission"): RUN_BY_AGENT,
    ("edited into what a rule denies", "engine"): RUN_BY_AGENT,
    ("edited into what a rule denies", "acp permission"): RUN_BY_AGENT,
    ("not editable", "call"): "its arguments are ours to run",
    ("not editable", "step"): "its arguments are ours to run",
    ("not editable", "acp write"): "we write the file",
    ("not editable", "acp terminal"): "we run the command",
    ("for the session", "step"): "each step has a journal of its own, so there is no session to allow it for",
    ("no session to allow it for", "call"): "it has one",
    ("no session to allow it for", "engine"): "it has one",
    ("no session to allow it for", "acp permission"): "it has one",
    ("no session to allow it for", "acp write"): "it has one",
    ("no session to allow it for", "acp terminal"): "it has one",
    **{
        (case, caller): why
        for case in ("price within the cap", "price above the cap", "unknown price under a cap")
        for caller, why in {
            "step": "a command has no price and no ledger",
            "engine": "the whole run is reserved by the engine, see engines/test_prices.py",
            "acp permission": "paid within the run of its engine",
            "acp write": "it costs nothing",
            "acp terminal": "it costs nothing",
        }.items()
    },
}


def callers(case: str) -> Any:
    """Everybody to whom a case applies."""
    return pytest.mark.parametrize("caller", [name for name in CALLERS if (case, name) not in SKIPPED])


class Scene:
    """A caller in a house of its own."""

    def __init__(self, folder: Path, caller: str, *, rules: str = "", **answer: Any) -> None:
        agent = EngineSettings(command=("touch", WANTED), protocol="exec")
        self.tool, self._take = CALLERS[caller]
        self.house = House(folder, touching=agent)
        self.house.config.folder.mkdir(parents=True)
        (self.house.config.folder / "approvals.toml").write_text(rules.format(tool=self.tool))
        self.person = Person(is_engine=caller == "engine", **answer)

    def take(self) -> list[Event]:
        return asyncio.run(self._take(self.house, self.person))

    @property
    def made(self) -> set[str]:
        names = {WANTED, EDITED, FORBIDDEN}
        return {path.name for path in self.house.workspace.iterdir() if path.name in names}


def end_of(events: list[Event]) -> str:
    end = events[-1]
    assert isinstance(end, TurnEnded | CommandEnded)
    return end.ending if isinstance(end, TurnEnded) else end.outcome


@callers("allowed by rule")
def test_what_a_rule_allows_runs_unasked(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, rules=RULE.replace("{answer}", "allow"))
    assert end_of(scene.take()) in ("done", "ok")
    assert (scene.made, scene.person.asked) == ({WANTED}, [])


@callers("denied by rule")
def test_what_a_rule_denies_is_not_asked_about(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, rules=RULE.replace("{answer}", "deny"), decision="allow")
    assert "so says the rule" in str(scene.take())
    assert (scene.made, scene.person.asked) == (set(), [])


@callers("allow")
def test_what_a_person_allows_runs_once(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, decision="allow")
    events = scene.take()
    assert scene.made == {WANTED}
    (asked,) = scene.person.asked
    assert (asked.tool, asked.blocked_by, asked.rule) == (scene.tool, "mode", "mode:ask")
    assert asked in events
    assert len([event for event in events if isinstance(event, ApprovalGiven)]) == len(
        [event for event in events if isinstance(event, ApprovalAsked)]
    )


@callers("deny with feedback")
def test_what_a_person_refuses_does_not_run_and_their_words_are_told(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, decision="reject", feedback="use make")
    events = [event for event in scene.take() if not isinstance(event, ApprovalGiven)]
    assert scene.made == set()
    assert "use make" in str(events), "also beside the answer itself"


@callers("allow edited")
def test_what_a_person_edited_runs_instead(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, decision="allow", edited=EDITED)
    assert end_of(scene.take()) in ("done", "ok")
    assert scene.made == {EDITED}


@callers("edited into what a rule denies")
def test_what_a_person_edited_is_judged_too(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, rules=FORBIDS, decision="allow", edited=FORBIDDEN)
    assert "a rule forbids the edited call" in str(scene.take())
    assert scene.made == set()


@callers("not editable")
def test_an_edit_that_cannot_be_run_is_refused_and_never_ignored(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, decision="allow", edited=EDITED)
    with pytest.raises(UsageError, match="cannot be edited"):
        scene.take()
    assert [asked.is_editable for asked in scene.person.asked] == [False]
    assert scene.made == set()


@callers("for the session")
def test_what_is_allowed_for_the_session_is_not_asked_again_in_it(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, decision="allow", scope="session")
    for _ in range(2):
        scene.take()
        assert scene.made == {WANTED}
        (scene.house.workspace / WANTED).unlink()
    assert len(scene.person.asked) == 1
    scene.house.session = ""
    scene.take()
    assert len(scene.person.asked) == 2, "another session asks"


@callers("no session to allow it for")
def test_a_reach_that_would_not_be_honoured_is_refused(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, decision="allow", scope="session")
    with pytest.raises(UsageError, match="only for once, project, forever"):
        scene.take()
    assert scene.made == set()


@pytest.mark.parametrize("scope", ["project", "forever"])
@callers("for the project or for ever")
def test_what_is_allowed_for_longer_is_not_asked_in_the_next_session(
    tmp_path: Path, caller: str, scope: str
) -> None:
    scene = Scene(tmp_path, caller, decision="allow", scope=scope)
    for _ in range(2):
        scene.house.session = ""
        scene.take()
        assert scene.made == {WANTED}
        (scene.house.workspace / WANTED).unlink()
    assert len(scene.person.asked) == 1


@callers("nobody to ask")
def test_without_a_person_it_does_not_run(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller)
    events = scene.take()
    assert scene.made == set()
    assert len(scene.person.asked) == 1
    assert end_of(events) == ("refused" if caller == "step" else "blocked")


@callers("expired")
def test_what_is_not_answered_in_time_does_not_run(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, is_asleep=True)
    settings = msgspec.structs.replace(scene.house.config.settings, approval_timeout_s=0.05)
    scene.house.config = msgspec.structs.replace(scene.house.config, settings=settings)
    assert "nobody approved it in time" in str(scene.take())
    assert scene.made == set()


@callers("stop")
def test_a_person_can_stop_the_turn(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, decision="stop")
    assert end_of(scene.take()) == ("refused" if caller == "step" else "interrupted")
    assert scene.made == set()


@callers("wrong hash")
def test_an_answer_to_other_arguments_allows_nothing(tmp_path: Path, caller: str) -> None:
    scene = Scene(tmp_path, caller, decision="allow", arguments_sha256="0" * 64)
    with pytest.raises(UsageError, match="other arguments"):
        scene.take()
    assert scene.made == set()


@pytest.mark.parametrize(
    ("case", "usd", "blocked_by"),
    [
        ("price within the cap", 2.0, ""),
        ("price above the cap", 6.0, "over_cap"),
        ("unknown price under a cap", None, "unknown_price"),
    ],
)
def test_a_price_is_reserved_within_the_caps_or_asked_about(
    tmp_path: Path, case: str, usd: float | None, blocked_by: str
) -> None:
    assert [name for name in CALLERS if (case, name) not in SKIPPED] == ["call"]

    async def rent() -> str:
        """Rents a machine."""
        return "rented"

    asks = ScriptedReply(calls=(ScriptedCall("rent", {}),))
    price = Price(input=0.0, output=0.0)
    model = ScriptedModel(Script(replies=(asks, ScriptedReply(text="Done.")), price=price))
    person = Person(is_engine=False)

    async def taken() -> list[Event]:
        tools = [tool(rent, effect="write", cost_usd=lambda: usd)]
        limits = Limits(max_cost_usd=5.0)
        house = House(tmp_path)
        options = {"mode": "yolo", "limits": limits, "tools": tools, "model": model, "approver": person}
        async with house.opened(**options) as session:
            return [event async for event in session.run("go")]

    events = asyncio.run(taken())
    reserved = [each.usd for each in events if isinstance(each, SpendReserved) and each.source == "call"]
    assert reserved == ([] if blocked_by else [usd])
    assert [asked.blocked_by for asked in person.asked] == ([blocked_by] if blocked_by else [])
    for asked in person.asked:
        assert (asked.estimate_usd, asked.remaining_usd, asked.cap_scope) == (usd, 5.0, "session")

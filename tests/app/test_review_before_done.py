"""`[review] before_done`: a turn is done only when somebody who did not write it finds nothing against it."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mainspring
from mainspring.checks.review_settings import ReviewSettings
from mainspring.events import AssistantSaid, NoteAdded, ReviewEnded, ReviewStarted, SpendReserved, TurnEnded
from mainspring.models.scripted import Case, Script, ScriptedCall, ScriptedModel, ScriptedReply
from tests.agents.family import settings

BAD, GOOD = "def f(n):\n    return 1 / n\n", "def f(n):\n    return 1 / n if n else 0\n"
FINDING = {
    "file": "a.py",
    "line": 2,
    "severity": "high",
    "title": "divides by zero",
    "why": "n may be 0",
    "quote": "return 1 / n",
}


def writes(text: str, path: str = "a.py") -> ScriptedReply:
    return ScriptedReply(calls=(ScriptedCall("write", {"path": path, "content": text}),))


def says(text: str) -> ScriptedReply:
    return ScriptedReply(text=text)


def answer(*findings: dict[str, Any]) -> ScriptedReply:
    return says(json.dumps({"summary": "Looked.", "findings": findings}))


class World:
    """A project with a session whose model is scripted, and a home that says what is reviewed."""

    def __init__(self, folder: Path, **review: Any) -> None:
        self.folder = folder
        self.place = folder / "project"
        self.place.mkdir(parents=True, exist_ok=True)
        self.session = ""
        config = settings(folder / "home")
        review = {"before_done": True, **review}
        self.config = msgspec.structs.replace(
            config, settings=msgspec.structs.replace(config.settings, review=ReviewSettings(**review))
        )

    def model(self, work: tuple[ScriptedReply, ...], *reviews: tuple[str, ScriptedReply], on_request=None):
        """Reviews are told apart by what the diff has that they are shown."""
        cases = tuple(Case(contains=f"+{text}", replies=(reply,)) for text, reply in reviews)
        return ScriptedModel(Script(replies=work, cases=cases), on_request=on_request)

    def take(self, model: ScriptedModel, text: str = "Write f.", session: str = "") -> list[Any]:
        async def taken() -> list[Any]:
            opened = mainspring.open(self.place, session=session, model=model, config=self.config)
            async with opened as running:
                self.session = running.id
                return [event async for event in running.run(text)]

        return asyncio.run(taken())


BAD_SEEN, GOOD_SEEN = ("    return 1 / n\\n", "    return 1 / n if n else 0\\n")


def of(events: list[Any], kind: Any) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


def test_what_a_review_finds_must_be_put_right_before_the_turn_is_done(tmp_path):
    world = World(tmp_path)
    work = (writes(BAD), says("Done."), writes(GOOD), says("Now it is done."))
    events = world.take(world.model(work, (BAD_SEEN, answer(FINDING)), (GOOD_SEEN, answer())))
    (note,) = [each for each in of(events, NoteAdded) if each.source == "mainspring:review"]
    assert "a.py:2 (high) divides by zero" in note.text
    assert [len(each.findings) for each in of(events, ReviewEnded)] == [1, 0]
    assert [each.ending for each in of(events, TurnEnded)] == ["done"]
    assert (world.place / "a.py").read_text() == GOOD


def test_after_its_rounds_the_turn_fails_and_names_what_is_left(tmp_path):
    world = World(tmp_path, rounds=1)
    work = (writes(BAD), says("Done."), says("It is fine."))
    events = world.take(world.model(work, (BAD_SEEN, answer(FINDING))))
    (ended,) = of(events, TurnEnded)
    assert ended.ending == "failed"
    assert "a.py:2 divides by zero" in ended.detail
    assert len(of(events, ReviewStarted)) == 1  # the same content is not reviewed twice


def test_low_findings_and_turns_without_changes_are_not_held_up(tmp_path):
    world = World(tmp_path)
    low = {**FINDING, "severity": "low"}
    events = world.take(world.model((writes(BAD), says("Done.")), (BAD_SEEN, answer(low))))
    assert [each.ending for each in of(events, TurnEnded)] == ["done"]
    events = world.take(world.model((says("x"), says("x"), says("Nothing to do."))), "And?", world.session)
    assert not of(events, ReviewStarted)


@pytest.mark.parametrize(("path", "is_reviewed"), [("auth.py", True), ("a.py", False)])
def test_only_sensitive_paths_are_reviewed_when_that_is_wanted(tmp_path, path, is_reviewed):
    world = World(tmp_path, before_done="sensitive")
    events = world.take(world.model((writes(BAD, path), says("Done.")), (BAD_SEEN, answer())))
    assert bool(of(events, ReviewEnded)) == is_reviewed
    assert [each.ending for each in of(events, TurnEnded)] == ["done"]


def test_a_review_without_an_answer_fails_the_turn(tmp_path):
    world = World(tmp_path)
    no = says("I will not say.")
    model = ScriptedModel(
        Script(
            replies=(writes(BAD), says("Done.")),
            cases=(Case(contains=f"+{BAD_SEEN}", replies=(no, no, no)),),
        )
    )
    (ended,) = of(world.take(model), TurnEnded)
    assert (ended.ending, "could not be reviewed" in ended.detail) == ("failed", True)


def test_a_review_counts_against_the_session_and_goes_on_after_a_kill(tmp_path):
    """The data folder is copied while the reviewer is asked: that is what a killed process leaves."""
    world, left = World(tmp_path / "one"), tmp_path / "two"
    asked: list[str] = []

    def on_request(request: Any) -> None:
        text = b"".join(request.messages).decode()
        if "Review this change" in text and not left.exists():
            shutil.copytree(world.folder, left)
        asked.append(text)

    work = (writes(GOOD), says("Done."))
    reviews = ((GOOD_SEEN, answer()),)
    events = world.take(world.model(work, *reviews, on_request=on_request))
    (ended,) = of(events, TurnEnded)
    assert ended.ending == "done"
    again = World(left)
    # Journals name their workspace, so the copy works where the first one did.
    again.place = world.place
    (started,) = of(events, ReviewStarted)
    requests = len(asked)
    resumed = again.take(again.model(work, *reviews, on_request=on_request), "", world.session)
    assert len(asked) == requests + 1  # the reviewer alone is asked again
    assert [each.review for each in of(resumed, ReviewEnded)] == [started.review]
    assert not of(resumed, ReviewStarted)
    assert not of(resumed, AssistantSaid)
    assert [each.ending for each in of(resumed, TurnEnded)] == ["done"]
    assert any(each.child == started.review for each in of(events, SpendReserved))

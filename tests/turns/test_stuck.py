"""The same change of a file that keeps failing: what is changed about it, in order, in real sessions."""

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import mainspring
from mainspring.events import Compacted, Event, GuardTripped, ModelChosen, SamplingChosen, TurnEnded
from mainspring.models.scripted import ScriptedCall, ScriptedReply
from mainspring.settings import load_config
from tests.workspace.sessions import World, say

E = TypeVar("E", bound=Event)


def call(name: str, **arguments: Any) -> ScriptedReply:
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


FAILING = call("edit", path="code.py", edits=[{"old": "no such line anywhere", "new": "x"}])
READ = call("read", path="code.py")
FIXED = call("edit", path="code.py", edits=[{"old": "width = 7", "new": "width = 8"}])


class Stuck(World):
    def __init__(self, folder: Path, *replies: ScriptedReply) -> None:
        super().__init__(folder, *replies)
        (self.root / "code.py").write_text("width = 7\n")

    def events(self, kind: type[E]) -> list[E]:
        return [item.event for item in self.journal() if isinstance(item.event, kind)]

    @property
    def rungs(self) -> list[str]:
        return [
            trip.action or ("final" if trip.is_final else trip.guard) for trip in self.events(GuardTripped)
        ]


def test_the_second_failure_shows_the_file_and_a_model_that_recovers_sees_no_more_of_it(tmp_path):
    world = Stuck(tmp_path, READ, FAILING, FAILING, FIXED, say("Done."))
    world.turn("make it wide")
    assert world.rungs == ["told"]
    (trip,) = world.events(GuardTripped)
    assert "code.py holds now:\nwidth = 7\n" in trip.message
    assert not world.events(SamplingChosen)
    assert world.events(TurnEnded)[-1].ending == "done"
    assert (world.root / "code.py").read_text() == "width = 8\n"


def test_without_a_tier_it_is_told_sampled_otherwise_begun_anew_and_then_ended(tmp_path):
    world = Stuck(tmp_path, READ, *[FAILING] * 9)
    world.turn("make it wide")
    assert world.rungs == ["told", "sampled", "restarted", "final"]
    assert [event.temperature for event in world.events(SamplingChosen)] == [0.7]
    (fresh,) = world.events(Compacted)
    assert fresh.reason == "stuck"
    assert "make it wide" in fresh.summary
    restarted = world.events(GuardTripped)[2]
    assert "no such line anywhere" in restarted.message
    ended = world.events(TurnEnded)[-1]
    assert ended.ending == "failed"
    # The history has the task and the account, and only what came after the fresh start.
    sent = world.sent()
    assert "make it wide" in sent[0]["text"]
    assert [message["role"] for message in sent[2:]] == ["assistant", "results"] * 2


def test_another_sampling_ends_with_being_stuck(tmp_path):
    world = Stuck(tmp_path, READ, FAILING, FAILING, FAILING, FIXED, say("Done."))
    world.turn("make it wide")
    assert world.rungs == ["told", "sampled"]
    assert [event.temperature for event in world.events(SamplingChosen)] == [0.7, None]


def test_the_next_tier_takes_over_before_the_end(tmp_path):
    strong = tmp_path / "strong.json"
    strong.write_bytes(msgspec.json.encode({"replies": [READ, FIXED, say("Done.")]}))
    world = Stuck(tmp_path, READ, *[FAILING] * 9)
    world.home.mkdir(exist_ok=True)
    tiers = f'[tiers]\nfast = "{world.model}"\nreasoner = "scripted@{strong}"\n'
    (world.home / "config.toml").write_text(tiers)
    config = load_config({"MAINSPRING_HOME": str(world.home), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})

    async def taken() -> None:
        limits = mainspring.Limits(max_cost_usd=1)
        opened = mainspring.open(
            world.root, model="fast", mode="yolo", limits=limits, sandbox="none", config=config
        )
        async with opened as session:
            world.session = session.id
            async for _ in session.run("make it wide"):
                pass

    asyncio.run(taken())
    assert world.rungs[:4] == ["told", "sampled", "restarted", "escalated"]
    chosen = world.events(ModelChosen)[-1]
    assert (chosen.tier, chosen.by) == ("reasoner", "escalation")
    assert world.events(TurnEnded)[-1].ending == "done"


def test_a_process_that_takes_over_goes_on_at_the_next_rung(tmp_path):
    world = Stuck(tmp_path, READ, *[FAILING] * 9)

    async def stopped() -> None:
        async with world.open() as session:
            world.session = session.id
            async for event in session.run("make it wide"):
                if isinstance(event, GuardTripped) and event.action == "sampled":
                    session.stop_soon()

    async def resumed() -> None:
        async with world.open() as session:
            async for _ in session.run():
                pass

    asyncio.run(stopped())
    before = world.rungs
    asyncio.run(resumed())
    assert world.rungs[: len(before)] == before
    assert world.rungs[-1] == "final"


def test_a_file_that_is_written_the_same_again_is_a_change_that_fails(tmp_path):
    again = call("write", path="code.py", content="width = 9\n")
    world = Stuck(tmp_path, READ, again, again, again, say("Done."))
    world.turn("make it wide")
    assert world.rungs == ["told", "sampled"]
    assert world.events(TurnEnded)[-1].ending == "done"


def test_the_same_text_written_over_what_something_else_wrote_is_no_failure(tmp_path):
    again = call("write", path="code.py", content="width = 9\n")
    other = call("shell", command="echo 'width = 1' > code.py")
    world = Stuck(tmp_path, READ, again, other, READ, again, say("Done."))
    world.turn("make it wide")
    assert not world.rungs
    assert (world.root / "code.py").read_text() == "width = 9\n"

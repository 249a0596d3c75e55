"""One task tried several times in one session: real files, real checks, a model that differs by its seed."""

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

import mainspring
from mainspring.app.operations.attempts import are_attempts_open, take_attempts
from mainspring.errors import UsageError
from mainspring.events import (
    AttemptEnded,
    AttemptsEnded,
    AttemptStarted,
    CheckEnded,
    Event,
    NoteAdded,
    SamplingChosen,
    TurnStarted,
    Undone,
)
from mainspring.models.scripted import Case, ScriptedReply
from tests.workspace.machine import picture
from tests.workspace.sessions import World, say, shell

E = TypeVar("E", bound=Event)


def seeded(number: int, *replies: ScriptedReply) -> Case:
    return Case(contains=f'"seed":{number},', replies=replies)


class Tries(World):
    """A world whose model does something else in each attempt."""

    def __init__(self, folder: Path, *attempts: tuple[ScriptedReply, ...]) -> None:
        super().__init__(folder, *attempts[0])
        cases = [seeded(number, *replies) for number, replies in enumerate(attempts[1:], 2)]
        self.script.write_bytes(msgspec.json.encode({"replies": attempts[0], "cases": cases}))
        (self.root / "kept.txt").write_text("mine\n")

    def tried(self, text: str, attempts: int, *checks: str, **options) -> AttemptsEnded:
        async def tried() -> None:
            async with self.open(**options) as session:
                self.session = session.id
                async for _ in take_attempts(session, text, attempts=attempts, checks=checks):
                    pass
                assert not await are_attempts_open(session)

        asyncio.run(tried())
        return self.events(AttemptsEnded)[-1]

    def open(self, **options):
        return mainspring.open(self.root, session=self.session, **(self.usual | options))

    @property
    def usual(self) -> dict[str, Any]:
        limits = mainspring.Limits(max_cost_usd=1)
        return {
            "model": self.model,
            "mode": "yolo",
            "sandbox": "none",
            "config": self.config,
            "limits": limits,
        }

    def events(self, kind: type[E]) -> list[E]:
        return [item.event for item in self.journal() if isinstance(item.event, kind)]


def test_the_first_attempt_that_passes_is_kept_and_the_others_leave_nothing_in_the_workspace(tmp_path):
    world = Tries(
        tmp_path,
        (shell("echo wrong > answer; echo junk > junk"), say("done, I think")),
        (shell("echo right > answer"), say("done")),
        (shell("echo never"), say("never asked")),
    )
    ended = world.tried("answer it", 3, "grep -q right answer")
    assert (ended.kept, ended.is_passed) == (2, True)
    assert (world.root / "answer").read_text() == "right\n"
    assert not (world.root / "junk").exists()
    assert (world.root / "kept.txt").read_text() == "mine\n"
    first, second = world.events(AttemptEnded)
    assert (first.failed, first.files, first.changed_lines) == (
        ("grep -q right answer",),
        ("answer", "junk"),
        2,
    )
    assert (second.passed, second.files) == (("grep -q right answer",), ("answer",))
    assert [event.attempt for event in world.events(AttemptStarted)] == [1, 2]
    assert [check.passed for check in world.events(CheckEnded)] == [False, True]
    # The conversation is that of the second attempt alone.
    said = [message.get("text", "") for message in world.sent() if message["role"] == "user"]
    assert said[-1] == "answer it"
    assert sum(text == "answer it" for text in said) == 1


def test_each_attempt_is_sampled_otherwise_and_the_session_is_as_before_after_them(tmp_path):
    world = Tries(tmp_path, *((say(f"no {number}"),) for number in range(4)))
    world.tried("go", 4, "false")
    chosen = world.events(SamplingChosen)
    assert [(event.seed, event.temperature) for event in chosen[:-1]] == [(2, 0.4), (3, 0.7), (4, 1.0)]
    assert chosen[-1] == SamplingChosen()


def test_a_later_attempt_is_told_what_the_check_said(tmp_path):
    world = Tries(tmp_path, (say("nothing to do"),), (say("still nothing"),))
    world.tried("go", 2, "echo the width is 7, not 8; exit 3")
    (note,) = [event for event in world.events(NoteAdded) if event.source == "mainspring:attempts"]
    assert "the width is 7, not 8" in note.text
    assert "exit code 3" in note.text


def test_without_a_pass_the_most_checks_then_the_smallest_diff_is_restored(tmp_path):
    long, short = "seq 1 50 > made; echo one > a", "echo made > made; echo one > a"
    world = Tries(
        tmp_path,
        (shell("echo other > b"), say("first")),
        (shell(long), say("second")),
        (shell(short), say("third")),
        (shell("rm kept.txt"), say("fourth")),
    )
    ended = world.tried("go", 4, "test -e a", "test -e c")
    assert (ended.kept, ended.is_passed) == (3, False)
    assert picture(world.root).keys() >= {"a", "made", "kept.txt"}
    assert (world.root / "made").read_text() == "made\n"
    assert not (world.root / "b").exists()
    last = [message for message in world.sent() if message["role"] == "assistant"][-1]
    assert last["parts"][0]["text"] == "third"


def test_another_attempt_can_be_taken_and_all_of_them_undone(tmp_path):
    world = Tries(tmp_path, (shell("echo 1 > one"), say("first")), (shell("echo 2 > two"), say("second")))
    before = picture(world.root)
    ended = world.tried("go", 2, "test -e two")
    assert ended.kept == 2
    world.command("rewind", world.session, "--to", str(ended.end_seqs[0]))
    assert (world.root / "one").exists()
    assert not (world.root / "two").exists()
    world.command("undo", world.session)
    assert picture(world.root) == before


def test_without_checks_the_first_turn_that_is_done_is_enough(tmp_path):
    world = Tries(tmp_path, (say("done"),), (say("never"),))
    ended = world.tried("go", 3)
    assert (ended.kept, ended.is_passed, ended.end_seqs[1:]) == (1, True, ())


def test_without_checks_the_test_command_of_the_project_decides(tmp_path):
    world = Tries(tmp_path, (say("done"),), (shell("touch made"), say("done")))
    (world.root / "Makefile").write_text("test:\n\ttest -e made\n")
    ended = world.tried("go", 3)
    assert (ended.kept, ended.is_passed) == (2, True)
    assert [check.check for check in world.events(CheckEnded)] == ["make test"] * 2


def test_the_limits_of_one_turn_hold_for_all_attempts_together(tmp_path):
    steps = (shell("true"), shell("true"), say("done"))
    world = Tries(tmp_path, steps, steps, steps)
    ended = world.tried("go", 3, "false", limits=mainspring.Limits(max_steps=5, max_cost_usd=1))
    assert len(world.events(AttemptEnded)) == 2
    assert "used up" in ended.reason
    assert [event.limits.turn.steps for event in world.events(TurnStarted)][1:] == [2]
    assert sum(event.used.steps for event in world.events(AttemptEnded)) == 5


def test_a_file_that_someone_else_changed_meanwhile_ends_the_attempts_and_is_not_touched(tmp_path):
    world = Tries(tmp_path, (shell("echo 1 > one"), say("first")), (say("never"),))

    async def tried() -> None:
        async with world.open() as session:
            world.session = session.id
            async for item in take_attempts(session, "go", attempts=2, checks=("false",)):
                if isinstance(item.event, AttemptEnded):
                    (world.root / "one").write_text("a person's\n")

    asyncio.run(tried())
    (ended,) = world.events(AttemptsEnded)
    assert "changed since" in ended.reason
    assert not world.events(Undone)
    assert (world.root / "one").read_text() == "a person's\n"


def test_a_judge_can_take_the_place_of_commands(tmp_path):
    world = Tries(tmp_path, (shell("echo 1 > n"), say("a")), (shell("echo 2 > n"), say("b")))

    async def judge(_session, attempt):
        is_fine = (world.root / "n").read_text() == "2\n"
        return [CheckEnded(iteration=attempt, check="n is 2", kind="command", passed=is_fine)]

    async def tried() -> None:
        async with world.open() as session:
            world.session = session.id
            async for _ in take_attempts(session, "go", attempts=3, judge=judge):
                pass

    asyncio.run(tried())
    assert world.events(AttemptsEnded)[0].kept == 2


def test_a_program_gets_the_answer_of_the_attempt_that_was_kept(tmp_path):
    world = Tries(
        tmp_path, (shell("echo 1 > n"), say("first")), (shell("echo 2 > n"), say("second")), (say("third"),)
    )
    reply = mainspring.run("go", world.root, attempts=3, check="grep -q 2 n", **world.usual)
    assert (reply.text, reply.attempt, reply.is_done) == ("second", 2, True)
    reply = mainspring.run("go", world.root, attempts=2, check=["true", "false"], **world.usual)
    assert (reply.ending, reply.is_done) == ("failed", False)


@pytest.mark.parametrize("attempts", [0, 21])
def test_a_number_of_attempts_that_makes_no_sense_is_refused(tmp_path, attempts):
    world = Tries(tmp_path, (say("done"),))
    with pytest.raises(UsageError):
        world.tried("go", attempts, "true")

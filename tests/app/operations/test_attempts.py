"""One task tried several times in one session: real files, real checks, a model that differs by its seed."""

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

import mainspring
from mainspring.app.operations import attempt_judges
from mainspring.app.operations.attempts import are_attempts_open, take_attempts
from mainspring.errors import UsageError
from mainspring.events import (
    AttemptEnded,
    AttemptsEnded,
    AttemptsStarted,
    AttemptStarted,
    CheckEnded,
    Event,
    NoteAdded,
    SamplingChosen,
    SuiteEnded,
    TurnStarted,
    Undone,
)
from mainspring.models.scripted import Case, ScriptedReply
from mainspring.sandbox import TIMED_OUT
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

    def tried(
        self, text: str, attempts: int, *checks: str, is_usual: bool = False, **options
    ) -> AttemptsEnded:
        async def tried() -> None:
            async with self.open(**options) as session:
                self.session = session.id
                async for _ in take_attempts(
                    session, text, attempts=attempts, checks=checks, is_usual=is_usual
                ):
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


def test_what_a_runner_says_of_itself_is_not_told(tmp_path):
    world = Tries(tmp_path, (say("nothing to do"),), (say("still nothing"),))
    report = "===== test session starts =====\nplatform linux -- Python\nrootdir: /x\ncollected 2 items\n\nE  assert 7 == 8"
    (world.root / "report").write_text(report)
    world.tried("go", 2, "cat report; exit 1")
    (note,) = [event for event in world.events(NoteAdded) if event.source == "mainspring:attempts"]
    assert note.text.endswith("cat report; exit 1 (exit code 1)\n\nE  assert 7 == 8")


def test_a_check_that_never_ends_is_stopped_when_it_takes_much_longer_than_before(tmp_path, monkeypatch):
    monkeypatch.setattr(attempt_judges, "_LEAST_S", 2.0)
    monkeypatch.setattr(attempt_judges, "_ROOM", 1.0)
    world = Tries(tmp_path, (say("done"),), (shell("echo sleep 600 > tested"), say("done")))
    (world.root / "tested").write_text("false\n")
    assert not world.tried("go", 2, "bash tested").is_passed
    first, second = world.events(CheckEnded)
    assert (first.detail, second.detail.startswith(TIMED_OUT)) == ("exit code 1", True)


def test_tests_that_failed_by_themselves_on_the_same_files_are_not_run_again_to_judge(tmp_path):
    test = "import os, unittest\nclass A(unittest.TestCase):\n    def test(self): assert os.path.exists('made')\n"
    world = Tries(tmp_path, (shell("echo 1 > code.py"), say("done")), (shell("echo 2 > made"), say("done")))
    (world.root / "test_code.py").write_text(test)
    work = msgspec.structs.replace(world.config.settings.work, after_change="affected", test_timeout_s=300.0)
    settings = msgspec.structs.replace(world.config.settings, work=work)
    config = msgspec.structs.replace(world.config, settings=settings)
    assert world.tried("go", 2, config=config).is_passed
    ran = [event for event in world.events(SuiteEnded) if event.cause == "change"]
    first, second = world.events(CheckEnded)
    assert (ran[0].outcome, first.passed, second.passed) == ("failed", False, True)
    assert first.duration_s == ran[0].duration_s
    (note,) = [event for event in world.events(NoteAdded) if event.source == "mainspring:attempts"]
    assert "os.path.exists" in note.text


def test_usual_attempts_end_where_the_tests_cannot_run(tmp_path):
    world = Tries(tmp_path, (shell("echo 1 > code.py"), say("done")), (say("never"),))
    (world.root / "package.json").write_text('{"scripts": {"test": "no-such-runner"}}')
    ended = world.tried("go", 3, is_usual=True)
    assert (ended.kept, ended.is_passed, world.events(CheckEnded)) == (1, True, [])


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


def test_a_small_model_has_several_attempts_from_a_program_too(tmp_path):
    world = Tries(tmp_path, (shell("touch other"), say("done")), (shell("touch made"), say("made it")))
    (world.root / "Makefile").write_text("test:\n\ttest -e made\n")
    (world.root / "code.py").write_text("")
    work = msgspec.structs.replace(world.config.settings.work, profile="small", priming="off")
    settings = msgspec.structs.replace(world.config.settings, work=work)
    config = msgspec.structs.replace(world.config, settings=settings)
    options: dict[str, Any] = world.usual | {"config": config}
    reply = mainspring.run("make it", world.root, **options)
    world.session = reply.session
    assert (reply.text, reply.attempt) == ("made it", 2)
    assert [event.is_usual for event in world.events(AttemptsStarted)] == [True]


@pytest.mark.parametrize("attempts", [0, 21])
def test_a_number_of_attempts_that_makes_no_sense_is_refused(tmp_path, attempts):
    world = Tries(tmp_path, (say("done"),))
    with pytest.raises(UsageError):
        world.tried("go", attempts, "true")

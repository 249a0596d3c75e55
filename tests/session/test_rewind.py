"""Going back and forth in real sessions: conversation, files, both, and what stands in the way."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.events import AssistantSaid, CallEnded, FilesChanged, RewindStarted, Undone, UserSaid
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault
from mainspring.session.rewind import go_back
from mainspring.workspace import restore
from tests.workspace.machine import picture
from tests.workspace.sessions import World, say, shell

DYING = Path(__file__).parent / "dying.py"


@pytest.fixture
def world(tmp_path):
    world = World(
        tmp_path,
        shell("echo one > a.txt; mkdir made; echo deep > made/deep.txt", "echo two > b.txt"),
        say("first done"),
        shell("echo changed >> a.txt; rm b.txt; ln -s a.txt link; chmod 600 kept.txt"),
        say("second done"),
    )
    (world.root / "kept.txt").write_text("mine\n")
    return world


def said(world):
    return [message["text"] for message in world.sent() if message["role"] == "user"]


def test_undo_takes_back_the_last_turn_and_can_be_taken_back(world):
    zero = picture(world.root)
    world.turn("do one")
    one = picture(world.root)
    world.turn("do two")
    two = picture(world.root)
    last = len(world.journal())

    assert "» do two" in world.command("undo", world.session)
    assert (picture(world.root), said(world)) == (one, ["do one"])
    world.command("undo", world.session)
    assert (picture(world.root), said(world)) == (zero, [])
    assert "nothing to undo" in world.command("undo", world.session, code=2)

    world.command("rewind", world.session, "--to", str(last))
    assert (picture(world.root), said(world)) == (two, ["do one", "do two"])


def test_files_and_conversation_can_be_taken_back_apart(world):
    zero = picture(world.root)
    world.turn("do one")
    one = picture(world.root)
    world.turn("do two")
    two = picture(world.root)

    world.command("undo", world.session, "--conversation")
    assert (picture(world.root), said(world)) == (two, ["do one"])
    world.command("undo", world.session, "--files")
    assert (picture(world.root), said(world)) == (one, ["do one"])
    world.command("undo", world.session, "--files")
    assert (picture(world.root), said(world)) == (zero, ["do one"])


def test_every_event_of_a_session_can_be_gone_back_to(world):
    pictures = {0: picture(world.root)}
    world.turn("do one")
    world.turn("do two")
    journal = world.journal()
    for seq in range(len(journal), 0, -1):
        world.command("rewind", world.session, "--to", str(seq))
        pictures[seq] = picture(world.root)
        world.command("rewind", world.session, "--to", str(len(journal)))
    assert pictures[1] == pictures[0]
    changed = [item.seq for item in journal if isinstance(item.event, FilesChanged)]
    for seq in range(2, len(journal) + 1):
        assert (pictures[seq] == pictures[seq - 1]) == (seq not in changed)


def test_a_conversation_taken_back_into_a_step_has_a_result_for_every_call(world):
    world.turn("do one")
    asked = world.seq_of(AssistantSaid)
    world.command("rewind", world.session, "--to", str(asked), "--conversation")
    world.turn("something else")
    roles = [message["role"] for message in world.sent()]
    assert roles[:4] == ["user", "assistant", "results", "user"]


def test_undo_refuses_to_overwrite_what_someone_else_changed_and_changes_nothing(world):
    world.turn("do one")
    (world.root / "a.txt").write_text("edited by a person\n")
    before, events = picture(world.root), len(world.journal())
    answer = world.command("undo", world.session, code=1)
    assert "a.txt changed since; no file was restored." in answer
    assert (picture(world.root), len(world.journal())) == (before, events)
    world.command("undo", world.session, "--conversation")
    assert picture(world.root) == before


def test_a_persons_edit_between_two_turns_is_not_destroyed_by_going_back_over_it(world):
    world.turn("do one")
    (world.root / "a.txt").write_text("edited by a person\n")
    world.turn("do two")
    first = world.seq_of(UserSaid)
    answer = world.command("rewind", world.session, "--to", str(first), code=1)
    assert "a.txt changed since" in answer
    world.command("undo", world.session)
    assert (world.root / "a.txt").read_text() == "edited by a person\n"


def test_a_file_that_someone_put_into_a_new_folder_keeps_that_folder(world):
    world.turn("do one")
    (world.root / "made" / "mine").write_text("by a person")
    assert "not put back: made (something else is in it)" in world.command("undo", world.session)
    assert [path.name for path in (world.root / "made").iterdir()] == ["mine"]


def test_a_folder_replaced_by_a_link_is_not_written_through(world, tmp_path):
    world.turn("do one")
    elsewhere = tmp_path / "elsewhere"
    (world.root / "made").rename(elsewhere)
    (world.root / "made").symlink_to(elsewhere)
    world.command("undo", world.session, code=1)
    assert (elsewhere / "deep.txt").read_text() == "deep\n"


@pytest.mark.parametrize("done_before_dying", range(5))
def test_going_back_that_was_killed_is_completed_when_the_session_is_opened(
    world, monkeypatch, done_before_dying
):
    zero = picture(world.root)
    world.turn("do one")
    left = [done_before_dying]
    apply = restore.apply

    class Killed(BaseException):
        pass

    def dying(*arguments):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return apply(*arguments)

    async def go():
        journal = await world.store.open(world.session)
        try:
            await go_back(Recorder(journal, Vault()), world.root, world_first - 1, "both")
        finally:
            await journal.close()

    world_first = world.seq_of(UserSaid)
    monkeypatch.setattr("mainspring.session.rewind.apply", dying)
    if done_before_dying < 4:
        with pytest.raises(Killed):
            asyncio.run(go())
        assert isinstance(world.journal()[-1].event, RewindStarted)
    else:
        asyncio.run(go())
    monkeypatch.setattr("mainspring.session.rewind.apply", apply)
    world.turn("go on")
    journal = [item.event for item in world.journal()]
    assert sum(isinstance(event, Undone) for event in journal) == 1
    undone = next(index for index, event in enumerate(journal) if isinstance(event, Undone))
    assert len(journal[undone - 1].changes) == 4
    assert said(world) == ["go on"]
    world.command("undo", world.session)
    assert picture(world.root) == zero


def test_going_back_that_was_killed_before_any_of_its_changes_is_completed(world, tmp_path):
    """SIGKILL in a real process, before the first change to a file, the second, and so on to the last."""
    zero = picture(world.root)
    world.turn("do one")
    one = picture(world.root)
    kept = tmp_path / "kept"
    for folder in (world.home, world.root):
        shutil.copytree(folder, kept / folder.name, symlinks=True)
    number, half_done = 0, 0
    while True:
        number += 1
        for folder in (world.home, world.root):
            shutil.rmtree(folder)
            shutil.copytree(kept / folder.name, folder, symlinks=True)
        ran = subprocess.run(
            [sys.executable, DYING, world.root, str(number), "undo", world.session],
            env={**world.config.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            timeout=300,
            check=False,
        )
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        half_done += picture(world.root) not in (zero, one)
        world.command("rewind", world.session, "--to", "1", "--conversation")
        assert picture(world.root) == zero
        assert isinstance(world.journal()[world.seq_of(RewindStarted)].event, FilesChanged)
    assert number > 4
    assert half_done
    assert picture(world.root) == zero


def test_a_file_changed_while_going_back_was_interrupted_is_left_alone_and_named(world):
    world.turn("do one")
    first = world.seq_of(UserSaid)

    async def intend():
        journal = await world.store.open(world.session)
        await journal.append(RewindStarted(to_seq=first - 1, scope="both"))
        await journal.close()

    asyncio.run(intend())
    (world.root / "a.txt").write_text("edited by a person\n")
    world.command("rewind", world.session, "--to", "1", "--conversation")
    (changed,) = [
        item.event
        for item in world.journal()
        if isinstance(item.event, FilesChanged) and not item.event.calls
    ]
    assert changed.not_covered == ("a.txt (someone else changed it meanwhile)",)
    assert not (world.root / "b.txt").exists()


def test_going_back_needs_an_event_that_exists(world):
    world.turn("do one")
    assert "There is no event 999" in world.command("rewind", world.session, "--to", "999", code=2)


def test_diff_shows_what_each_step_did(world):
    world.turn("do one")
    world.turn("do two")
    whole = world.command("diff", world.session)
    assert "+one" in whole
    assert "~ kept.txt (mode 0644 → 0600)" in whole
    second = world.command("diff", world.session, "--step", "3")
    assert "+changed" in second
    assert "- b.txt" in second
    assert "+one" not in second
    assert "@@" not in world.command("diff", world.session, "--stat")
    assert "Step 2 changed no files" in world.command("diff", world.session, "--step", "2")
    assert "There is no step 9: the last one is 4" in world.command(
        "diff", world.session, "--step", "9", code=2
    )


def test_without_a_name_the_newest_session_of_the_folder_is_meant(world, monkeypatch):
    world.turn("do one")
    monkeypatch.chdir(world.root)
    assert "+one" in world.command("diff")
    assert "all" in world.command("context")
    assert "» do one" in world.command("undo")
    assert not (world.root / "a.txt").exists()
    monkeypatch.chdir(world.home)
    assert "There is no session in this folder" in world.command("undo", code=2)


def test_going_back_names_what_it_does_not_cover(tmp_path):
    world = World(tmp_path, shell("git init -q .; echo one > a.txt"), say("done"))
    world.turn("go")
    answer = world.command("undo", world.session)
    assert "not put back: .git (the version control's own data)" in answer
    assert not (world.root / "a.txt").exists()
    assert (world.root / ".git").exists()


def test_a_cancelled_call_leaves_what_it_did_on_record(tmp_path):
    world = World(tmp_path, shell("echo half > half.txt; sleep 60"), say("never"))

    async def stop_in_the_middle():
        async with world.open() as session:
            world.session = session.id
            await session.say("go")
            while not (world.root / "half.txt").exists():
                await asyncio.sleep(0.01)
            await session.stop()

    asyncio.run(stop_in_the_middle())
    journal = [item.event for item in world.journal()]
    (changed,) = [event for event in journal if isinstance(event, FilesChanged)]
    assert [change.path for change in changed.changes] == ["half.txt"]
    assert [event.outcome for event in journal if isinstance(event, CallEnded)] == ["cancelled"]


def test_files_left_out_stay_also_when_going_back_was_killed_and_is_completed(world):
    world.turn("do one")
    first = world.seq_of(UserSaid)

    async def intend():
        journal = await world.store.open(world.session)
        await journal.append(RewindStarted(to_seq=first - 1, scope="files", left_out=("a.txt",)))
        await journal.close()

    asyncio.run(intend())
    world.command("rewind", world.session, "--to", "1", "--conversation")
    assert (world.root / "a.txt").read_text() == "one\n"
    assert not (world.root / "b.txt").exists()

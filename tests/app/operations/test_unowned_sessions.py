"""Commands on sessions that nobody runs: what they write passes the vault, like everything else."""

import asyncio
from typing import Any

import pytest

from mainspring.app.goals import tell_goal
from mainspring.app.records import recording, vault_of
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.errors import JournalOwned
from mainspring.events import (
    ApprovalGiven,
    Event,
    FilesChanged,
    GoalEnded,
    GoalPaused,
    NoteAdded,
    SessionStarted,
    UserSaid,
    encode,
)
from tests.workspace.machine import picture
from tests.workspace.sessions import World, say, shell

KEY = "sk-proj-Zx9Qw7Er5Ty3Zx9Qw7Er5Ty3Zx9Qw7Er5Ty3"


def stored(world):
    """Every byte of the journals, and every event of this one in the clear."""
    sessions = world.home / "sessions"
    files = [path for path in sessions.rglob("*") if path.is_file() and path.name != "secrets.json"]
    raw = b"".join(path.read_bytes() for path in files)
    return raw + b"".join(encode(item.event)[1] for item in world.journal())


def last(world: World, kind: type[Event]) -> Any:
    return next(item.event for item in reversed(world.journal()) if isinstance(item.event, kind))


@pytest.mark.parametrize(
    ("order", "event"),
    [
        ("pause", GoalPaused(reason=f"The key {KEY} ran out.")),
        ("stop", GoalEnded(ending="stopped", reason=f"The key {KEY} ran out.", exit_code=130)),
    ],
)
def test_why_a_goal_that_nobody_works_on_was_paused_or_stopped(tmp_path, order, event):
    world = World(tmp_path, say("done"))
    world.turn("go")
    told = asyncio.run(tell_goal(world.session[:6], order, event, world.config))
    assert told == "it was not running; recorded"
    assert KEY.encode() not in stored(world)
    vault = vault_of(world.store, world.session, world.config)
    assert vault.expand(last(world, type(event)).reason) == event.reason


def test_where_a_fork_works(tmp_path):
    world = World(tmp_path, say("done"), say("more"))
    world.turn("go")
    folder = tmp_path / KEY
    folder.mkdir()
    parent, world.session = world.session, world.command("fork", world.session, "-C", str(folder)).split()[0]
    assert KEY not in last(world, NoteAdded).text
    vault = vault_of(world.store, world.session, world.config)
    assert vault.expand(last(world, NoteAdded).text) == f"From here on the workspace is {folder}."
    started = last(world, SessionStarted)
    assert vault.expand(started.workspace) == str(folder)
    assert not (world.store.directory(parent) / "secrets.json").exists(), "that belongs to its owner"
    assert KEY.encode() not in stored(world)
    world.turn("go on")
    assert last(world, SessionStarted) == started


def test_what_a_person_answers_to_a_session_that_nobody_runs(tmp_path):
    world = World(tmp_path, shell("echo one > made.txt"), say("refused"))
    options = ("--mode", "ask", "--sandbox", "none", "--max-cost-usd", "1")
    world.command("run", "go", "-C", str(world.root), *options, code=3)
    world.session = world.store.shelf.names()[0]
    world.command("approve", world.session, "--reject", f"not with {KEY}", "--max-cost-usd", "1")
    assert last(world, ApprovalGiven).feedback.startswith("not with __secret_")
    assert KEY.encode() not in stored(world)


@pytest.mark.parametrize("command", [("undo",), ("rewind", "--to", "1")])
def test_the_names_of_files_that_are_put_back(tmp_path, command):
    world = World(
        tmp_path, shell(f"echo {KEY} > {KEY}.txt; rm {KEY}.ini; mkdir d; echo x > d/{KEY}"), say("done")
    )
    (world.root / f"{KEY}.ini").write_text(f"key = {KEY}\n")
    before = picture(world.root)
    world.turn("go")
    world.command(command[0], world.session, *command[1:])
    assert picture(world.root) == before
    assert last(world, FilesChanged).calls == (), "that of going back"
    assert KEY.encode() not in stored(world)


@pytest.mark.parametrize("how", ["--merge", "--squash", "--discard"])
def test_the_branches_and_files_that_land_or_are_given_up(tmp_path, root, git, how):
    git("init", "-q", "-b", f"feature/{KEY}")
    (root / "a.txt").write_text("one\n")
    git("add", ".")
    git("commit", "-qm", "first")
    world = World(tmp_path, shell(f"echo two > {KEY}.txt"), say("done"))
    options = ("--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1", "--branch")
    world.command("run", f"Use {KEY}", "-C", str(root), *options)
    world.session = world.store.shelf.names()[0]
    world.command("land", world.session, how)
    assert git("symbolic-ref", "--short", "HEAD") == f"feature/{KEY}"
    assert (root / f"{KEY}.txt").exists() == (how != "--discard")
    assert git("status", "--porcelain") == ""
    assert KEY not in git("log", "--format=%B")
    assert KEY.encode() not in stored(world)


def test_a_session_that_somebody_runs_is_left_to_them(tmp_path):
    world = World(tmp_path, say("done"))

    async def writing_beside_its_owner():
        async with world.open() as session:
            world.session = session.id
            with pytest.raises(JournalOwned):
                async with recording(session.id, world.config) as recorder:
                    await recorder.record(UserSaid(text="from elsewhere"))

    asyncio.run(writing_beside_its_owner())
    assert not any(isinstance(item.event, UserSaid) for item in world.journal())


def test_a_session_can_be_opened_again_after_a_command_failed_in_it(tmp_path):
    world = World(tmp_path, say("done"), say("more"))
    world.turn("go")

    async def failing():
        async with recording(world.session, world.config) as recorder:
            await recorder.record(NoteAdded(text="kept"))
            raise ValueError

    with pytest.raises(ValueError):
        asyncio.run(failing())
    assert last(world, NoteAdded).text == "kept"
    world.turn("go on")


def test_secrets_that_cannot_be_read_leave_the_journal_free(tmp_path):
    world = World(tmp_path, say("done"))
    world.turn("go")
    secrets = world.store.directory(world.session) / "secrets.json"
    secrets.write_text("{")
    assert "cannot be read" in world.command("undo", world.session, code=2)
    secrets.unlink()

    async def opened():
        await (await SqliteSessions(world.home).open(world.session)).close()

    asyncio.run(opened())

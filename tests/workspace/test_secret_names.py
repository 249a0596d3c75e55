"""A key in the name of a file, in its content, or in the path of the workspace: hidden on record, and put back."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from mainspring.events import FilesChanged, ModelChosen, TurnEnded
from mainspring.secrets.vault import PLACEHOLDER, Vault
from tests.workspace.machine import Watched, picture
from tests.workspace.sessions import World, say, shell

KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 3
NAME = f"{KEY}.txt"
WORK = f"echo two >> {NAME}; echo {KEY} > new-{KEY}; mv old-{KEY} moved-{KEY}; rm gone-{KEY}; mkdir d-{KEY}; echo x > d-{KEY}/x"


@pytest.fixture
def world(tmp_path: Path, root: Path) -> World:
    world = World(tmp_path, shell(WORK), say("done"))
    fill(root)
    return world


def fill(root: Path) -> None:
    for name in (NAME, f"old-{KEY}", f"gone-{KEY}"):
        (root / name).write_text(f"{name} holds {KEY}\n")


def assert_hidden(world: World) -> None:
    """No file of ours has the key, but the one that is for it."""
    for path in world.home.rglob("*"):
        if path.is_file() and path.name != "secrets.json":
            assert KEY.encode() not in path.read_bytes(), path
            assert KEY not in str(path)


def changed_paths(world: World) -> list[str]:
    events = [item.event for item in world.journal() if isinstance(item.event, FilesChanged)]
    return [change.path for event in events for change in event.changes]


def test_undo_puts_back_what_was_there_and_rewind_takes_that_back(world: World, root: Path) -> None:
    before = picture(root)
    world.turn("work")
    after = picture(root)
    assert after != before
    assert all(PLACEHOLDER.search(path) for path in changed_paths(world))
    seq = world.journal()[-1].seq
    said = world.command("undo", world.session)
    assert KEY not in said
    assert picture(root) == before
    assert KEY not in world.command("rewind", world.session, "--to", str(seq), "--both")
    assert picture(root) == after
    assert_hidden(world)


def test_a_session_takes_back_its_own_last_turn_with_keys_in_names(world: World, root: Path) -> None:
    before = picture(root)
    world.turn("work")

    async def undo() -> None:
        async with world.open() as session:
            await session.undo("both")

    asyncio.run(undo())
    assert picture(root) == before
    assert_hidden(world)


def test_a_conflict_names_the_file_without_its_key(world: World, root: Path) -> None:
    world.turn("work")
    (root / NAME).write_text("by a person")
    said = world.command("undo", world.session, code=1)
    assert "changed since; no file was restored" in said
    assert KEY not in said
    assert (root / NAME).read_text() == "by a person"


@pytest.mark.parametrize("how", ["--merge", "--squash", "--discard"])
def test_land_brings_or_gives_up_files_by_their_real_names(world: World, root: Path, git, how: str) -> None:
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "first")
    before = picture(root)
    options = ("-C", str(root), "--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1", "--branch")
    said = world.command("run", f"use {KEY} now", *options)
    world.session = asyncio.run(world.store.names())[0]
    after = picture(root)
    said += world.command("land", world.session, how)
    assert KEY not in said
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    assert git("status", "--porcelain") == ""
    assert picture(root) == (before if how == "--discard" else after)
    names = git("ls-tree", "-r", "--name-only", "main").splitlines()
    assert (f"new-{KEY}" in names) == (how != "--discard")
    assert (f"gone-{KEY}" in names) == (how == "--discard")
    assert_hidden(world)


def test_a_fork_in_another_folder_puts_back_what_was_there(world: World, tmp_path: Path) -> None:
    world.turn("work")
    other = tmp_path / f"other-{KEY}"
    shutil.copytree(world.root, other, symlinks=True)
    before = picture(other)
    at = str(world.journal()[-1].seq)
    made = world.command("fork", world.session, "--at", at, "-C", str(other)).split()[0]
    world.write_script(say("x"), say("x"), shell(f"echo three >> {NAME}; rm new-{KEY}"), say("done"))
    world.command("resume", made, "more", "--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1")
    assert (other / NAME).read_text().endswith("three\n")
    assert not (world.root / NAME).read_text().endswith("three\n")
    world.command("undo", made)
    assert picture(other) == before
    assert_hidden(world)


def test_a_workspace_with_a_key_in_its_path_is_found_again(tmp_path: Path) -> None:
    world = World(
        tmp_path, shell("echo two > made.txt"), say("done"), shell("echo three >> made.txt"), say("done")
    )
    world.root = tmp_path / f"work-{KEY}"
    world.root.mkdir()
    world.turn("work")
    world.root = tmp_path  # what is resumed goes on where it was
    assert isinstance(world.turn("more")[-1], TurnEnded)
    made = tmp_path / f"work-{KEY}" / "made.txt"
    assert made.read_text() == "two\nthree\n"
    here = Path.cwd()
    os.chdir(made.parent)
    try:
        world.command("undo")
    finally:
        os.chdir(here)
    assert made.read_text() == "two\n"
    assert_hidden(world)


def test_after_a_restart_a_file_with_a_key_in_its_name_is_not_taken_for_a_new_one(
    tmp_path: Path, root: Path
) -> None:
    """The cache of the time machine has its name without the key, and still knows it: undoing what a lost call
    did must not remove it."""
    fill(root)
    vault, cache = Vault(), tmp_path / "cache"
    options = {"holds_secrets": vault.holds_secrets, "hide": vault.redact, "expand": vault.expand}
    first = Watched(root, cache, **options)
    first.run(first.machine.begin("c1"))
    (root / "made.txt").write_text("x")
    first.close()
    assert not any(KEY.encode() in path.read_bytes() for path in cache.rglob("*") if path.is_file())
    second = Watched(root, cache, **options)
    changed = second.run(second.machine.end(["c1"], second.keep, is_certain=False))
    second.close()
    assert [change.path for change in changed.changes] == ["made.txt"]


def test_a_model_with_a_key_in_its_name_is_found_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.script = tmp_path / f"script-{KEY}.json"
    world.write_script(say("one"), say("two"))
    world.turn("begin")
    said = world.command("resume", world.session, "go on", "--max-cost-usd", "1")
    assert "two" in said
    chosen = [item.event.model for item in world.journal() if isinstance(item.event, ModelChosen)]
    assert len(chosen) == 1, "it is the same model"
    assert PLACEHOLDER.search(chosen[0])
    assert_hidden(world)

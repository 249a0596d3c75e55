"""Which sessions can be deleted, and what `clean` and `uninstall` find."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from mainspring import index
from mainspring.app import hooks, login, retention, team
from mainspring.app.operations import entered, policy
from mainspring.app.operations.cleaning import apply_retention, disk_use, find_leftovers, remove_leftovers
from mainspring.app.operations.daemon import install_unit, service_unit
from mainspring.app.operations.deletion import Deletion, delete_sessions, plan_deletion
from mainspring.app.operations.devices import Access
from mainspring.app.operations.uninstall import (
    COMPLETIONS,
    WrittenPlace,
    check_idle,
    remove_places,
    written_places,
)
from mainspring.app.private import cache_folder
from mainspring.app.records import recording
from mainspring.app.stores import commands_of
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.errors import JournalOwned, UnknownSession, UsageError
from mainspring.events import (
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    NoteAdded,
    SessionStarted,
    SpendReserved,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from mainspring.mcp.tokens import token_file
from mainspring.notify import outbox
from mainspring.settings import Config, Settings, load_config
from mainspring.workspace.contents import Contents

GOAL = GoalSet(text="reach it")


def config_of(folder: Path, settings: str = "") -> Config:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(settings)
    return load_config({"MAINSPRING_HOME": str(home), "HOME": str(folder), "PATH": os.environ["PATH"]})


def turn(ending: str) -> tuple[Event, ...]:
    return UserSaid(text="go"), TurnStarted(turn=1), TurnEnded(turn=1, ending=ending, steps=1)  # type: ignore[arg-type]


def made(config: Config, session: str, *events: Event, workspace: str = "/", parent: str = "") -> None:
    async def making() -> None:
        journal = await SqliteSessions(config.home).create(session)
        started = SessionStarted(session=session, workspace=workspace, version="1", parent=parent)
        await journal.append(started, *events)
        await journal.close()

    asyncio.run(making())


def names(config: Config) -> set[str]:
    return set(asyncio.run(SqliteSessions(config.home).names()))


def deleted(config: Config, *sessions: str, **options: object) -> Deletion:
    async def deleting() -> Deletion:
        plan = await plan_deletion(config, sessions, **options)  # type: ignore[arg-type]
        return await delete_sessions(config, plan)

    return asyncio.run(deleting())


def reasons(done: Deletion) -> dict[str, str]:
    return {each.id: each.reason for each in done.kept}


def test_a_session_is_deleted_with_its_folder_and_leaves_the_list(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    made(config, "one", *turn("done"))
    made(config, "two", *turn("failed"))
    done = deleted(config, "on")
    assert [each.id for each in done.sessions] == ["one"]
    assert done.bytes > 1000
    assert names(config) == {"two"}
    assert [each.name for each in (config.home / "sessions").iterdir()] == ["two"]


def test_what_waits_is_kept_unless_a_person_insists(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    made(config, "asks", *turn("blocked"))
    made(config, "sleeps", *turn("waiting"))
    made(config, "paused", GOAL, GoalPaused(by="user"))
    made(config, "interrupted", GOAL, GoalPaused(by="signal"))
    made(config, "reached", GOAL, GoalEnded(ending="done"))
    done = deleted(config, older_than_days=0)
    assert [each.id for each in done.sessions] == ["reached"]
    assert all(each.is_waiting for each in done.kept)
    assert names(config) == {"asks", "sleeps", "paused", "interrupted"}
    assert not deleted(config, "asks", "sleeps", "paused", "interrupted", allows_waiting=True).kept
    assert names(config) == set()


def test_what_runs_is_kept_and_so_is_what_begins_to_run_meanwhile(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    made(config, "one", *turn("done"))

    async def trying() -> tuple[Deletion, Deletion]:
        store = SqliteSessions(config.home)
        plan = await plan_deletion(config, ["one"])
        journal = await store.open("one")
        raced = await delete_sessions(config, plan)
        again = await plan_deletion(config, ["one"], allows_waiting=True)
        with pytest.raises(UsageError, match="Session one runs"):
            await check_idle(config)
        await journal.close()
        return raced, again

    for done in asyncio.run(trying()):
        assert not done.sessions
        assert f"process {os.getpid()}" in reasons(done)["one"]
    assert names(config) == {"one"}


def test_what_somebody_went_on_with_or_forked_since_it_was_looked_at_is_kept(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    for name in ("one", "two", "three"):
        made(config, name, *turn("done"))

    async def trying() -> Deletion:
        store = SqliteSessions(config.home)
        plan = await plan_deletion(config, older_than_days=0)
        async with recording("one", config) as recorder:
            await recorder.record(NoteAdded(text="what I found"))
        await store.fork("two")
        return await delete_sessions(config, plan)

    done = asyncio.run(trying())
    assert [each.id for each in done.sessions] == ["three"]
    kept = reasons(done)
    assert kept.pop("two").endswith("was forked from it")
    assert kept == {"one": "somebody went on with it meanwhile"}


def test_a_session_that_is_deleted_while_somebody_opens_or_forks_it_is_gone_and_no_other_error(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path)

    async def opening(store: SqliteSessions, name: str) -> None:
        await (await store.open(name)).close()

    async def forking(store: SqliteSessions, name: str) -> None:
        await store.fork(name)

    async def trying() -> None:
        for number in range(40):
            name, use = f"s{number}", (opening, forking)[number % 2]
            store = SqliteSessions(config.home)
            await asyncio.to_thread(shutil.copytree, store.directory("one"), config.home / "sessions" / name)
            used, gone = await asyncio.gather(use(store, name), store.delete(name), return_exceptions=True)
            assert used is None or isinstance(used, UnknownSession | JournalOwned), repr(used)
            assert isinstance(gone, bool | JournalOwned), repr(gone)
            assert (gone is True) != (config.home / "sessions" / name).is_dir()

    made(config, "one", *turn("done"))
    asyncio.run(trying())


def test_a_parent_goes_only_together_with_its_forks(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    made(config, "parent", *turn("done"))
    fork, _ = asyncio.run(SqliteSessions(config.home).fork("parent"))
    assert reasons(deleted(config, "parent")) == {"parent": f"session {fork} was forked from it"}
    assert {each.id for each in deleted(config, "parent", fork).sessions} == {"parent", fork}
    assert names(config) == set()


def test_a_parent_stays_when_its_fork_cannot_go(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    made(config, "parent", *turn("done"))

    async def trying() -> tuple[str, Deletion]:
        store = SqliteSessions(config.home)
        fork, _ = await store.fork("parent")
        plan = await plan_deletion(config, ["parent", fork])
        journal = await store.open(fork)
        done = await delete_sessions(config, plan)
        await journal.close()
        return fork, done

    fork, done = asyncio.run(trying())
    assert reasons(done)["parent"] == f"session {fork} was forked from it"
    assert names(config) == {"parent", fork}


def test_sessions_that_name_each_other_as_parents_can_be_deleted(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    for name, parent in (("one", "two"), ("two", "one"), ("self", "self")):
        made(config, name, *turn("done"), parent=parent)
    assert set(reasons(deleted(config, "one"))) == {"one"}
    assert {each.id for each in deleted(config, "one", "two", "self").sessions} == {"one", "two", "self"}


def test_what_counts_against_the_cap_of_today_is_kept(tmp_path: Path) -> None:
    config = config_of(tmp_path, "[caps.day]\nusd = 5.0\n")
    made(config, "paid", SpendReserved(spend="a", source="step", model="m", usd=1.0), *turn("done"))
    made(config, "free", *turn("done"))
    done = deleted(config, older_than_days=0)
    assert reasons(done) == {"paid": "what it spent today counts against the cap of the day"}
    assert names(config) == {"paid"}


def age(path: Path) -> None:
    """Makes a file, or a folder with what is in it, forty days old."""
    then = time.time() - 40 * 24 * 3600
    for each in (*path.rglob("*"), path):
        os.utime(each, (then, then), follow_symlinks=False)


def test_clean_finds_what_nobody_needs_and_leaves_the_rest(tmp_path: Path) -> None:
    config = config_of(tmp_path, "[retention]\ncontents_mb = 1\n")
    home = config.home
    for name in ("here", "full", "gone"):
        (tmp_path / name).mkdir()
        made(config, name, *turn("done"), workspace=str(tmp_path / name))
    (tmp_path / "gone").rmdir()
    made_contents = {}
    for name, size in (("here", 10), ("full", 1_000_000), ("gone", 10), ("in use", 10)):
        key = hashlib.sha256(str(tmp_path / name).encode()).hexdigest()[:16]
        contents = made_contents[name] = Contents(home / "contents" / key)
        assert contents.keep("a" * 64, b"x" * size) == ""
        if name != "in use":
            contents.close()
    made(Config(home=home / "steps", folder=home, settings=config.settings, environment={}), "old")
    made(Config(home=home / "steps", folder=home, settings=config.settings, environment={}), "new")
    (home / "sessions" / ".deleted-x").mkdir()
    (home / "sessions" / ".new-y").mkdir()
    (home / "debug.log").write_text("line\n")
    (home / "artifacts").mkdir()
    (home / "artifacts" / "1.artifacts").write_text("x")
    for path in ("steps/sessions/old", "debug.log", "artifacts/1.artifacts", "sessions/.new-y"):
        age(home / path)
    found = asyncio.run(find_leftovers(config))
    kinds = sorted((each.kind, each.path.name) for each in found if each.kind != "contents")
    assert kinds == [
        ("cache", "1.artifacts"),
        ("exec record", "old"),
        ("log", "debug.log"),
        ("unfinished session", ".deleted-x"),
        ("unfinished session", ".new-y"),
    ]
    assert sorted(each.why.split()[0] for each in found if each.kind == "contents") == ["full;", "its"]
    assert asyncio.run(remove_leftovers(config, found)) == found
    assert not any(each.path.exists() for each in found)
    assert asyncio.run(find_leftovers(config)) == ()
    assert len(list((home / "contents").iterdir())) == 2
    assert names(config) == {"here", "full", "gone"}
    made_contents["in use"].close()


def test_retention_is_off_unless_it_is_set(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    made(config, "one", *turn("done"))
    assert asyncio.run(apply_retention(config)) == (Deletion(), ())
    config = config_of(tmp_path, "[retention]\nsessions_days = 0.00000001\nclean_days = 30\n")
    deletion, _ = asyncio.run(apply_retention(config))
    assert [each.id for each in deletion.sessions] == ["one"]
    assert names(config) == set()


def test_the_use_of_the_disk_is_told_by_kind(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert disk_use(config).session_count == 0
    made(config, "one", *turn("done"))
    (config.home / "models").mkdir()
    (config.home / "models" / "w").write_bytes(b"x" * 7)
    use = disk_use(config)
    assert (use.session_count, use.models) == (1, 7)
    assert use.sessions > 1000


def test_uninstalling_removes_what_is_ours_and_nothing_else(tmp_path: Path) -> None:
    config = config_of(tmp_path, f"mode = 'ask'\n[journal]\ndaily_anchor = '{tmp_path}/days'\n")
    (tmp_path / "days").write_text("2026-01-01 one 3 abc\n")
    made(config, "one", *turn("done"), workspace=str(tmp_path))
    (config.home / "mine.txt").write_text("not of mainspring")
    found = asyncio.run(written_places(config))
    named = {each.path.name: each.kind for each in found.places if each.kind != "scratch"}
    assert named["sessions"] == named["days"] == "data"
    assert named["config.toml"] == "settings"
    assert "mine.txt" not in named
    assert found.workspaces == (str(tmp_path),)
    assert remove_places(config, tuple(each for each in found.places if each.kind != "scratch")) == ()
    assert [each.name for each in config.home.iterdir()] == ["mine.txt"]


def test_uninstalling_knows_every_name_that_is_written_into_a_folder_of_ones_own(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    folders = (outbox.FOLDER, login._FOLDER, team._FOLDER, entered._FOLDER, index.FOLDER)  # pyright: ignore[reportPrivateUsage]
    files = ("trust.json", retention.LOG, hooks.HOOKS_FILE, policy.KEY_FILE, "telemetry", "impact")
    tokens = token_file(config.home, "0" * 64).relative_to(config.home).parts[0]
    for name in (*folders, *files, tokens, "profiles"):
        (config.home / name).touch()
    found = asyncio.run(written_places(config))
    places = tuple(each for each in found.places if each.kind != "scratch")
    assert remove_places(config, places) == ()
    assert not config.home.exists()


def test_uninstalling_lists_what_lies_elsewhere_and_only_its_own(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    unit = service_unit(config)
    install_unit(unit)
    wanted = unit.path.parent / "default.target.wants" / unit.path.name
    wanted.parent.mkdir()
    wanted.symlink_to(unit.path)
    completion = tmp_path / COMPLETIONS[0]
    completion.parent.mkdir(parents=True)
    completion.touch()
    trees = cache_folder(config) / "fixes"
    for name in ("ours", "other"):
        (trees / name / "below").mkdir(parents=True)
    made(config, "one", *turn("done"), workspace=str(trees / "ours" / "below"))
    found = asyncio.run(written_places(config))
    paths = {each.path for each in found.places}
    assert {unit.path, wanted, completion, trees / "ours"} <= paths
    assert found.workspaces == ()
    assert not paths & {trees, trees / "other"}
    assert found.places[-1].kind == "settings"
    other = msgspec.structs.replace(config, environment={**config.environment, "MAINSPRING_HOME": "/other"})
    assert unit.path not in {each.path for each in asyncio.run(written_places(other)).places}


def test_uninstalling_removes_data_that_lies_behind_a_link(tmp_path: Path) -> None:
    data, link = tmp_path / "disk" / "data", tmp_path / ".local" / "share" / "mainspring"
    data.mkdir(parents=True)
    link.parent.mkdir(parents=True)
    link.symlink_to(data)
    environment = {"HOME": str(tmp_path)}
    config = Config(home=link, folder=tmp_path / "none", settings=Settings(), environment=environment)
    made(config, "one", *turn("done"))
    found = asyncio.run(written_places(config))
    assert sum(each.bytes for each in found.places if each.kind == "data") > 1000
    assert remove_places(config, tuple(each for each in found.places if each.kind == "data")) == ()
    assert not data.exists()
    assert not link.is_symlink()


def test_what_cannot_be_removed_is_told_and_the_rest_is_removed(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    stuck = WrittenPlace(kind="data", path=config.home / "config.toml" / "below", bytes=1)
    config.home.joinpath("sessions").mkdir()
    kept = WrittenPlace(kind="data", path=Path("/proc/self/environ"), bytes=1)
    rest = WrittenPlace(kind="data", path=config.home / "sessions", bytes=1)
    assert remove_places(config, (kept, stuck, rest)) == (kept.path,)
    assert not rest.path.exists()


def test_nothing_is_uninstalled_while_a_command_or_a_server_runs(tmp_path: Path) -> None:
    config = config_of(tmp_path)

    async def trying() -> None:
        journal = await commands_of(config).create("s1")
        with pytest.raises(UsageError, match="Command s1 runs"):
            await check_idle(config)
        await journal.close()
        with Access(config).announced("http://127.0.0.1:9"), pytest.raises(UsageError, match="A server runs"):
            await check_idle(config)
        await check_idle(config)

    asyncio.run(trying())


def test_contents_that_had_no_room_are_freed_also_when_they_are_not_nearly_full(tmp_path: Path) -> None:
    config = config_of(tmp_path, "[retention]\ncontents_mb = 1\n")
    (tmp_path / "work").mkdir()
    made(config, "one", *turn("done"), workspace=str(tmp_path / "work"))
    name = hashlib.sha256(str(tmp_path / "work").encode()).hexdigest()[:16]
    for sizes, is_freed in (((700_000,), False), ((2_000_000,), False), ((600_000, 700_000), True)):
        contents = Contents(config.home / "contents" / name, max_bytes=1_000_000)
        contents.load()
        for number, size in enumerate(sizes):
            contents.keep(f"{size}{number}", bytes(size))
        contents.close()
        found = [each for each in asyncio.run(find_leftovers(config)) if each.kind == "contents"]
        assert bool(found) == is_freed
    assert asyncio.run(remove_leftovers(config, tuple(found))) == tuple(found)

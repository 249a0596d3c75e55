"""Operations on sessions, called as a second face would: values in, values out."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest

from mainspring.app.operations import commands, cost, imports, sessions, timeline, transfer
from mainspring.app.operations.branches import land
from mainspring.app.operations.context import window_use
from mainspring.app.operations.forks import compare, fork, replay_session
from mainspring.app.operations.processes import list_processes, stop_process
from mainspring.app.step import run_command
from mainspring.cli.blocking import iterate
from mainspring.errors import UnknownSession, UsageError
from mainspring.events import TurnEnded, UserSaid
from mainspring.settings import load_config
from tests.workspace.sessions import World, say, shell


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, shell("echo one > made.txt"), say("made"))
    world.turn("make it")
    return world


def test_a_session_is_listed_found_by_its_folder_and_read(world: World) -> None:
    (row,) = asyncio.run(sessions.list_sessions(world.config))
    assert (row.id, row.workspace) == (world.session, str(world.root))
    assert asyncio.run(sessions.newest_session(world.config, world.root)) == world.session
    with pytest.raises(UsageError):
        asyncio.run(sessions.newest_session(world.config, world.home))
    events = [recorded.event for recorded in iterate(sessions.read_events(world.config, world.session[:6]))]
    assert "make it" in [event.text for event in events if isinstance(event, UserSaid)]
    assert isinstance(events[-1], TurnEnded)
    with pytest.raises(UnknownSession):
        list(iterate(sessions.read_events(world.config, "nobody")))


def test_following_ends_with_the_turn_and_begins_where_it_is_told(world: World) -> None:
    follower = sessions.Follower(world.config, world.session)
    seen = [recorded.seq for recorded in iterate(follower.events())]
    assert seen == list(range(1, len(seen) + 1))
    assert follower.has_ended
    assert not follower.has_goal
    later = sessions.Follower(world.config, world.session, after=seen[-2])
    assert [recorded.seq for recorded in iterate(later.events(is_followed=False))] == seen[-1:]


def test_costs_add_up_by_every_key(world: World) -> None:
    by_model = asyncio.run(cost.costs(world.config))
    assert [row.key for row in by_model.rows] == [world.model]
    assert by_model.total.requests == 2
    by_session = asyncio.run(cost.costs(world.config, session=world.session, by="session"))
    assert [(row.key, row.spent) for row in by_session.rows] == [(world.session, by_model.total)]
    assert asyncio.run(cost.costs(world.config, day="1999-01-01")).rows == ()


def test_an_export_is_sound_and_comes_back_elsewhere(world: World, tmp_path: Path) -> None:
    written = io.BytesIO()

    async def exported() -> None:
        async with transfer.exporting(world.config, world.session) as export:
            header = await export.write(written)
            assert export.facts.workspace == str(world.root)
            assert export.facts.events == header.events

    asyncio.run(exported())
    elsewhere = load_config({"MAINSPRING_HOME": str(tmp_path / "elsewhere"), "PATH": "/usr/bin:/bin"})
    lines = written.getvalue().splitlines(keepends=True)
    imported = asyncio.run(imports.import_session(elsewhere, lines, here=tmp_path))
    assert imported == imports.Imported(session=world.session, elsewhere=str(world.root))
    assert asyncio.run(transfer.verify_session(elsewhere, world.session)) == asyncio.run(
        transfer.verify_session(world.config, world.session)
    )


def test_a_session_of_another_agent_goes_on_in_the_folder_that_is_named(world: World) -> None:
    line = b'{"type":"user","sessionId":"s1","message":{"role":"user","content":"hello"},"cwd":"/gone"}\n'
    imported = asyncio.run(
        imports.import_session(world.config, [line], here=world.home, workspace=world.root)
    )
    assert imported.agent == "claude-code"
    events = [recorded.event for recorded in iterate(sessions.read_events(world.config, imported.session))]
    assert "hello" in [event.text for event in events if isinstance(event, UserSaid)]
    assert len(events) == imported.events + 3
    assert asyncio.run(sessions.newest_session(world.config, world.root)) == imported.session


def test_a_fork_shares_events_and_parts_where_it_goes_on(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    made = asyncio.run(fork(world.config, world.session, folder=other))
    found = asyncio.run(compare(world.config, world.session, made.session))
    assert found.shared_events == made.shared_events
    theirs, ours = found.sides
    assert (theirs.session, theirs.events) == (world.session, ())
    assert [recorded.kind for recorded in ours.events] == ["NoteAdded"]
    assert asyncio.run(sessions.newest_session(world.config, other)) == made.session


def test_replaying_gives_every_request_and_the_same_verdict(world: World) -> None:
    async def requests() -> list[str]:
        return [request.verdict async for request in replay_session(world.config, world.session)]

    assert asyncio.run(requests()) == ["same", "same"]


def test_changes_of_files_are_told_by_step_and_taken_back(world: World) -> None:
    (changes,) = iterate(timeline.file_changes(world.config, world.session, step=1))
    assert [change.path for change in changes.changed.changes] == ["made.txt"]
    assert "+one\n" in changes.diffs[0]
    with pytest.raises(UsageError, match="no step 9"):
        list(iterate(timeline.file_changes(world.config, world.session, step=9)))
    back = asyncio.run(timeline.go_back_to(world.config, world.session, None, "both"))
    assert (back.session, back.said) == (world.session, "make it")
    assert not (world.root / "made.txt").exists()
    asyncio.run(timeline.go_back_to(world.config, world.session, back.went.before_seq, "both"))
    assert (world.root / "made.txt").read_text() == "one\n"


def test_a_session_without_a_branch_has_nothing_to_land(world: World) -> None:
    with pytest.raises(UsageError, match="no branch"):
        asyncio.run(land(world.config, world.session, "merge"))


def test_the_window_is_weighed_part_by_part(world: World) -> None:
    filled = asyncio.run(window_use(world.config, world.session))
    assert filled.model == world.model
    assert filled.tokens == sum(part.tokens for part in filled.parts) > 0


def test_there_is_no_process_that_was_not_started(world: World) -> None:
    assert asyncio.run(list_processes(world.config, world.session)) == []
    with pytest.raises(UsageError, match="p1"):
        asyncio.run(stop_process(world.config, world.session, "p1"))


def test_a_step_is_listed_and_gives_its_output_back(world: World) -> None:
    step = asyncio.run(
        run_command(["sh", "-c", "echo out; echo err >&2; exit 3"], folder=world.root, config=world.config)
    )
    (listed,) = asyncio.run(commands.list_commands(world.config, limit=5))
    loaded = asyncio.run(commands.load_command(world.config, step[:6]))
    assert listed == loaded
    assert (loaded.id, loaded.state, loaded.exit_code) == (step, "error", 3)
    assert asyncio.run(commands.load_output(world.config, loaded)) == (b"out\n", b"err\n")
    with pytest.raises(UsageError, match="no command nothing"):
        asyncio.run(commands.load_command(world.config, "nothing"))

"""Whole pieces of work on sessions in memory: nothing needs to know how sessions are kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import mainspring
from mainspring.app.goals import GoalOptions, resume_goal, start_goal
from mainspring.app.records import fork_session
from mainspring.daemon.decide import plan
from mainspring.daemon.files import DaemonFiles, DaemonRecord
from mainspring.daemon.supervisor import Daemon
from mainspring.errors import JournalOwned
from mainspring.events import (
    ApprovalAsked,
    CallEnded,
    Cap,
    Event,
    GoalChecks,
    GoalEnded,
    GoalPaused,
    GoalSet,
    Limits,
    Recorded,
    SessionStarted,
    TurnEnded,
    UserSaid,
)
from mainspring.goals.fold import load_goal
from mainspring.session.session import Session
from mainspring.settings import Config, load_config
from mainspring.testing.memory import MemorySessions

DONE = "<promise>DONE</promise>"


class House:
    """A data folder, a workspace, and sessions that are in neither."""

    def __init__(self, folder: Path, *replies: object) -> None:
        self.sessions = MemorySessions(folder / "beside")
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.script = folder / "script.json"
        self.write(*replies)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "MAINSPRING_HOME": str(folder / "home"),
        }
        self.config: Config = load_config(environment)

    def write(self, *replies: object) -> None:
        self.script.write_bytes(msgspec.json.encode({"price": {"input": 1, "output": 1}, "replies": replies}))

    @property
    def model(self) -> str:
        return f"scripted@{self.script}"

    @asynccontextmanager
    async def open(self, session: str = "", *, limits: Limits | None = None) -> AsyncIterator[Session]:
        async with mainspring.open(
            self.workspace,
            session=session,
            model=self.model,
            mode="yolo",
            sandbox="none",
            limits=limits or Limits(max_cost_usd=5.0),
            config=self.config,
            sessions=self.sessions,
        ) as opened:
            yield opened

    async def recorded(self, session: str) -> list[Recorded]:
        reader = await self.sessions.read(session)
        return await reader.read()

    async def events(self, session: str, kind: type[Event]) -> list[Event]:
        return [item.event for item in await self.recorded(session) if isinstance(item.event, kind)]


async def take(session: Session, text: str = "") -> TurnEnded:
    ends = [event async for event in session.run(text) if isinstance(event, TurnEnded)]
    return ends[-1]


def shell(command: str, text: str = "") -> dict[str, object]:
    return {"text": text, "calls": [{"name": "shell", "arguments": {"command": command}}]}


def test_a_session_works_is_closed_and_goes_on(tmp_path: Path) -> None:
    house = House(tmp_path, shell("echo hello > made"), {"text": "Made."}, {"text": "Still here."})

    async def lived() -> None:
        async with house.open(limits=Limits(max_cost_usd=5.0, day=Cap(usd=10.0))) as session:
            assert (await take(session, "make it")).ending == "done"
            name = session.id
            with pytest.raises(JournalOwned):
                await house.sessions.open(name)
        assert await house.sessions.owner(name) is None
        async with house.open(name) as session:
            assert (await take(session, "and now?")).ending == "done"
        (row,) = await house.sessions.rows()
        assert (row.state, row.title, row.last_line) == ("done", "make it", "Still here.")
        assert row.cost_usd > 0
        async with house.sessions.today().held() as spent:
            assert spent.usd == row.cost_usd
        (call,) = await house.events(name, CallEnded)
        assert isinstance(call, CallEnded)
        assert call.outcome == "ok"

    asyncio.run(lived())
    assert (house.workspace / "made").read_text() == "hello\n"
    assert not (house.config.home / "sessions").exists()


def test_a_session_that_lost_its_journal_records_nothing_more_and_is_resumed(tmp_path: Path) -> None:
    house = House(tmp_path, shell("echo once >> made"), {"text": "Made."})

    async def lived() -> None:
        lost: list[int] = []
        name = ""
        with pytest.raises(JournalOwned):
            async with house.open() as session:
                name = session.id
                async for event in session.run("make it"):
                    if isinstance(event, CallEnded):
                        house.sessions.lose_owner(name)
                        lost.append(len(await house.recorded(name)))
        before = await house.recorded(name)
        assert len(before) == lost[0]
        (row,) = await house.sessions.rows()
        assert row.state == "crashed"
        async with house.open(name) as session:
            assert (await take(session)).ending == "done"
        assert (await house.recorded(name))[: len(before)] == before

    asyncio.run(lived())
    assert (house.workspace / "made").read_text() == "once\n"


def with_goal(tmp_path: Path) -> tuple[House, GoalOptions]:
    house = House(tmp_path, shell("echo 1 > made"), {"text": f"Made.\n{DONE}"})
    rules = {"wait_s": 0.0, "max_cost_usd": 5.0}
    options = GoalOptions(folder=house.workspace, model=house.model, mode="yolo", sandbox="none", rules=rules)
    return house, options


def test_a_goal_is_reached(tmp_path: Path) -> None:
    house, options = with_goal(tmp_path)
    options = msgspec.structs.replace(options, checks=GoalChecks(files=("made",)))

    async def pursued() -> None:
        how = {"config": house.config, "sessions": house.sessions}
        async with start_goal("make a file", options, **how) as pursuit:
            name = pursuit.session.id
            ended = await pursuit.run()
        assert isinstance(ended, GoalEnded)
        assert (ended.ending, ended.is_verified) == ("done", True)
        (row,) = await house.sessions.rows()
        assert (row.id, row.goal_state, row.iterations) == (name, "done", 1)
        assert (await load_goal(house.sessions, name)).now.text == "make a file"

    asyncio.run(pursued())


def test_a_goal_whose_process_died_is_resumed(tmp_path: Path) -> None:
    house, options = with_goal(tmp_path)
    how = {"config": house.config, "sessions": house.sessions}

    async def pursued() -> None:
        name = ""
        with pytest.raises(JournalOwned):
            async with start_goal("make a file", options, **how) as pursuit:
                name = pursuit.session.id
                house.sessions.lose_owner(name)
                await pursuit.run()
        (row,) = await house.sessions.rows()
        assert row.goal_state == "interrupted"
        async with resume_goal(name, options, **how) as pursuit:
            assert isinstance(await pursuit.run(), GoalEnded)
        assert (await load_goal(house.sessions, name)).ended is not None

    asyncio.run(pursued())


def test_a_fork_goes_on_and_leaves_its_parent_alone(tmp_path: Path) -> None:
    house = House(tmp_path, {"text": "One."}, {"text": "Other."})

    async def forked() -> None:
        async with house.open() as session:
            await take(session, "say one")
            parent = session.id
        before = await house.recorded(parent)
        fork, shared = await fork_session(parent, house.config, sessions=house.sessions)
        assert shared == len(before)
        async with house.open(fork) as session:
            assert (await take(session, "say other")).ending == "done"
        assert await house.recorded(parent) == before
        said = [event.text for event in await house.events(fork, UserSaid) if isinstance(event, UserSaid)]
        assert said == ["say one", "say other"]
        spends = {
            each.id: sum(spent.usd for spent in each.spent.values()) for each in await house.sessions.spends()
        }
        assert spends[parent] > 0
        assert spends[fork] > 0

    asyncio.run(forked())


async def goal(house: House, name: str, *events: Event, is_lost: bool = False) -> None:
    """A session with a goal, closed in order or left by a process that is gone."""
    journal = await house.sessions.create(name)
    started = SessionStarted(session=name, workspace=str(house.workspace / name), version="0")
    await journal.append(started, GoalSet(text=f"the goal {name}"), *events)
    if is_lost:
        house.sessions.lose_owner(name)
    else:
        await journal.close()


def test_the_daemon_plans_by_who_is_at_work(tmp_path: Path) -> None:
    house = House(tmp_path)
    settings = house.config.settings.daemon

    async def decided() -> None:
        await goal(house, "lost", is_lost=True)
        await goal(house, "paused", GoalPaused(reason="Paused."))
        await goal(house, "done", GoalEnded(ending="done"))
        running = await house.sessions.create("running")
        started = SessionStarted(session="running", workspace=str(house.workspace), version="0")
        await running.append(started, GoalSet(text="at work around all others"))
        rows = await house.sessions.rows()
        found = plan(rows, DaemonRecord(), settings, answered=(), now_us=rows[0].updated_us)
        assert (found.resume, found.is_full) == ((), True)
        await running.append(GoalEnded(ending="done"))
        await running.close()
        rows = await house.sessions.rows()
        found = plan(rows, DaemonRecord(), settings, answered=(), now_us=rows[0].updated_us)
        assert [row.id for row in found.resume] == ["lost"]

    asyncio.run(decided())


def test_the_daemon_resumes_what_was_lost_and_nothing_else(tmp_path: Path) -> None:
    house, said = House(tmp_path), list[str]()
    house.config.home.mkdir()
    place = DaemonFiles(house.config.home)
    asked = ApprovalAsked(call="c", tool="shell", arguments="{}", arguments_sha256="")
    ended = GoalEnded(ending="blocked")

    async def passed() -> DaemonRecord:
        await goal(house, "lost", is_lost=True)
        await goal(house, "asking", asked, ended)
        await goal(house, "paused", GoalPaused(reason="Paused."))
        await goal(house, "done", GoalEnded(ending="done"))
        with place.held():
            await Daemon(house.config, place, said.append, house.sessions).run(_nothing, is_once=True)
        return place.load()

    record = asyncio.run(passed())
    resumed = sorted(line.partition(":")[0] for line in said if "resumed by process" in line)
    assert resumed == ["lost"]
    # The processes that it starts look on the disk, where there is no such session.
    assert "session" in (house.sessions.directory("lost") / "daemon.log").read_text()
    assert [(result.session, result.state) for result in record.results] == [("lost", "interrupted")]


def _nothing() -> None:
    pass

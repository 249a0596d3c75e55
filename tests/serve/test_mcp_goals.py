"""Goals over MCP: another program's agent starts one, watches it, pauses and stops it, within its caps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Machine
from tests.daemon.test_daemon import DONE, PATIENT, bodies, engine
from tests.serve.test_mcp import asked, connected


@pytest.fixture
def daemons(machine: Machine) -> Iterator[Machine]:
    yield machine
    machine.run("daemon", "stop")


def test_a_goal_is_started_in_the_background_and_watched_to_its_end(daemons: Machine) -> None:
    name = engine(daemons, f"touch made; echo {DONE!r}")

    async def run() -> None:
        async with connected(daemons, "--timeout", "90", "--max-steps", "7") as client:
            begun = await asked(client, "start_goal", text="reach it", engine=name, checks=["test -e made"])
            ended = await asked(client, "watch", session=begun["session"], wait_s=120)
            assert ended["state"] == "done", ended
            assert "# " in await asked(client, "report", session=begun["session"])
            (goal,) = await asked(client, "goals")
            assert goal["id"] == begun["session"]

    asyncio.run(run())
    (goal,) = bodies(daemons, daemons.only_session()["id"], "GoalSet")
    assert (goal["rules"]["iteration_time_s"], goal["rules"]["iteration_steps"]) == (90, 7)
    assert goal["checks"]["commands"] == ["test -e made"]


@pytest.mark.parametrize(("order", "state"), [("pause", "paused"), ("stop", "stopped")])
def test_a_goal_is_paused_or_stopped(daemons: Machine, order: str, state: str) -> None:
    name = engine(daemons, PATIENT)

    async def run() -> None:
        async with connected(daemons) as client:
            session = (await asked(client, "start_goal", text="reach it", engine=name))["session"]
            while not (daemons.workspace / "begun").exists():
                await asyncio.sleep(0.02)
            given = await asked(client, "order_goal", session=session, order=order)
            assert given["session"] == session
            (daemons.workspace / "go").touch()
            ended = await asked(client, "watch", session=session, wait_s=120)
            assert ended["state"] == state, ended

    asyncio.run(run())

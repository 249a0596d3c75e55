"""The files that are ours are no progress of the agent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from mainspring.app.goals import GoalOptions, start_goal
from mainspring.settings import Config, Settings
from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, events

__all__ = ["machine"]


def test_the_memory_file_of_this_goal_is_no_artifact(machine: Machine) -> None:
    data = machine.home
    config = Config(home=data, folder=data, settings=Settings(), environment=machine.environment())
    options = GoalOptions(
        folder=Path(machine.workspace),
        memory="notes/mine.md",
        engine=engine(machine, other=f"echo x > made; echo {DONE!r}"),
    )

    async def pursued() -> None:
        async with start_goal("reach it", options, config=config) as pursuit:
            await pursuit.run()

    asyncio.run(pursued())
    assert (machine.workspace / "notes/mine.md").exists()
    paths = {item["path"] for event in events(machine, "ArtifactsChanged") for item in event["changes"]}
    assert "made" in paths
    assert "notes/mine.md" not in paths


def test_instructions_for_an_outside_engine_are_shown_as_changes_and_taken_back(machine: Machine) -> None:
    own = engine(machine, other=f"echo x > made; echo {DONE!r}")
    ran = machine.run("goal", "start", "--engine", own, "--allow-unpriced", "reach it")
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "AGENTS.md").exists()
    session = machine.only_session()["id"]
    shown = machine.run("diff", session).stdout
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "made"):
        assert f"+ {name}" in shown, shown
    undone = machine.run("undo", session)
    assert undone.returncode == 0, undone.stderr
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "made"):
        assert not (machine.workspace / name).exists(), undone.stdout


def test_the_file_that_our_output_goes_to_is_no_work_of_the_agent(machine: Machine) -> None:
    own, log = engine(machine, other="echo working"), machine.workspace / "loop.log"
    log.write_text("of an earlier run\n")
    machine.run("run", "look at the files", "--engine", "exec:true")  # it knows the file
    command = (sys.executable, "-m", "mainspring", "exploop", "--engine", own, "--max-idle", "2", "reach it")
    with log.open("w") as file:
        subprocess.run(
            command,
            cwd=machine.workspace,
            env=machine.environment(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
    session = json.loads(machine.run("goal", "list", "--json").stdout)["id"]
    (ended,) = events(machine, "GoalEnded", session)
    assert ended["ending"] == "no_progress", log.read_text()
    assert "loop.log" not in log.read_text()

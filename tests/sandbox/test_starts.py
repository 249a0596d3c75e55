"""Commands of one process start in turn, a few at a time, and none holds up others by running for long."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.policy import policy
from mainspring.sandbox.probe import build
from mainspring.sandbox.starts import PLACES, START_S, in_turn
from tests.sandbox.test_conformance import report
from tests.stage import pass_time, stopped_clock

HANGING_S = 60.0


async def settle() -> None:
    """Lets every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_few_start_at_a_time_in_the_order_in_which_they_came() -> None:
    async def main() -> None:
        inside: list[int] = []
        ended = [asyncio.Event() for _ in range(PLACES + 2)]

        async def command(number: int) -> None:
            async with in_turn():
                inside.append(number)
                await ended[number].wait()

        async with stopped_clock(), asyncio.TaskGroup() as group:
            for number in range(PLACES + 2):
                group.create_task(command(number))
            await settle()
            assert inside == list(range(PLACES))
            ended[1].set()
            await settle()
            assert inside == list(range(PLACES + 1)), "one that has ended gives its place up"
            pass_time(2 * START_S)
            await settle()
            assert inside == list(range(PLACES + 2)), "and so does one that runs for long"
            for event in ended:
                event.set()

    asyncio.run(main())


def test_one_that_is_cancelled_while_it_waits_takes_no_place() -> None:
    async def main() -> None:
        async with stopped_clock(), asyncio.TaskGroup() as group:
            for _ in range(PLACES):
                group.create_task(held())
            await settle()
            waiting = [asyncio.ensure_future(held()) for _ in range(3)]
            await settle()
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            over.set()
        async with asyncio.timeout(HANGING_S), asyncio.TaskGroup() as group:
            for _ in range(2 * PLACES):
                group.create_task(held())

    async def held() -> None:
        async with in_turn():
            await over.wait()

    over = asyncio.Event()
    asyncio.run(main())


def test_commands_that_run_for_long_hold_up_no_other(tmp_path: Path) -> None:
    if not report().rung("bwrap").is_available:
        pytest.skip("bwrap is not available")
    os.mkfifo(tmp_path / "gate")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    async def main() -> list[CommandResult]:
        sandbox = build("bwrap", policy(tmp_path, home=tmp_path / "home"), environment)

        async def bash(script: str) -> CommandResult:
            return await sandbox.run(Command(argv=("bash", "-c", script), cwd=tmp_path))

        try:
            async with asyncio.timeout(HANGING_S), asyncio.TaskGroup() as group:
                long = [group.create_task(bash("cat gate")) for _ in range(PLACES + 1)]
                last = await bash("echo here")
                assert not any(task.done() for task in long)
                for task in long:
                    task.cancel()
            return [last]
        finally:
            await sandbox.close()

    (last,) = asyncio.run(main())
    assert last.stdout == b"here\n"

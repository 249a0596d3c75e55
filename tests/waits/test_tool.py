"""The tool `wait` inside a real session: what the model is told, what is recorded, and what ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring.events import CallEnded, Limits, TurnEnded, WaitEnded, WaitStarted
from mainspring.models.scripted import Script
from mainspring.tools.shell import TOOL as SHELL
from mainspring.tools.wait import TOOL as WAIT
from mainspring.waits.patience import Patience
from tests.stage import call, calls, pass_time, says, take, wait_for
from tests.waits.asleep import Asleep
from tests.waits.test_hold import called


class Agent(Asleep):
    """A scripted model with the tools shell and wait."""

    def __init__(self, folder: Path, *steps: Any, **reach: Any) -> None:
        super().__init__(folder, **reach)
        self.script = Script(replies=(*steps, says("done")))
        self.tools = [SHELL, WAIT]

    def go(self, **limits: Any) -> TurnEnded:
        async def went() -> TurnEnded:
            async with asyncio.timeout(60), self.awake(**limits) as session:
                return await take(session, "go")

        return asyncio.run(went())

    def told(self) -> list[tuple[str, str]]:
        return [(ended.outcome, ended.output) for ended in self.events(CallEnded)]


def waits(**arguments: Any) -> Any:
    return calls(call("wait", arguments))


def test_a_background_process_is_waited_for_and_told_once(tmp_path: Path) -> None:
    patient = "echo working; until [ -e go ]; do sleep 0.02; done; exit 3"
    agent = Agent(
        tmp_path, calls(call("shell", {"command": patient, "background": True})), waits(processes=["p1"])
    )

    async def went() -> TurnEnded:
        async with asyncio.timeout(60), agent.awake() as session:
            await session.say("go")
            await wait_for(session, WaitStarted)
            (agent.work / "go").touch()
            return await wait_for(session, TurnEnded)

    assert asyncio.run(went()).ending == "done"
    outcome, output = agent.told()[1]
    assert outcome == "ok"
    assert output.startswith("Woken. p1 ended")
    assert "exit code 3" in output
    assert "working" in output
    assert not any("note from process" in str(message) for message in agent.sent())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "Say what to wait for"),
        ({"pattern": "x"}, "pattern needs a file"),
        ({"pids": [0]}, "0 cannot be the number of a process"),
        ({"pids": [-5]}, "-5 cannot be the number of a process"),
        ({"pids": [99999999999]}, "cannot be the number of a process"),
        ({"processes": ["p9"]}, "no background process 'p9'"),
        ({"slurm_jobs": ["$(id)"]}, "cannot be a Slurm job"),
        ({"until": "tomorrow"}, "is not an ISO time"),
        ({"seconds": 1, "max_seconds": 10**9}, "At most 604800 seconds"),
        ({"seconds": 10**9}, "At most 604800 seconds"),
        ({"seconds": 1e300}, "At most 604800 seconds"),
        ({"file": "a", "max_seconds": 1e300}, "At most 604800 seconds"),
        ({"file": "/proc/1/mem"}, "cannot be waited for"),
        ({"session": "nobody"}, "No session id begins with nobody"),
    ],
)
def test_what_makes_no_sense_is_an_error_and_nothing_is_recorded(
    tmp_path: Path, arguments: dict[str, Any], told: str
) -> None:
    agent = Agent(tmp_path, waits(**arguments))
    assert agent.go().ending == "done"
    ((outcome, output),) = agent.told()
    assert outcome == "error"
    assert told in output
    assert agent.events(WaitStarted) == []


def test_the_maximum_is_the_settings_unless_a_call_says_less_or_names_a_later_time(tmp_path: Path) -> None:
    now_s = int(time.time())
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s + 7200))
    each = [{"file": "a"}, {"file": "a", "max_seconds": 60}, {"file": "a", "until": later}]
    agent = Agent(
        tmp_path,
        *(waits(**arguments) for arguments in each),
        patience=Patience(default_s=600),
        clock=lambda: now_s * 1_000_000,
    )
    (agent.work / "a").touch()
    agent.go()
    deadlines = [started.deadline_us for started in agent.events(WaitStarted)]
    lefts = [deadline_us / 1e6 - now_s for deadline_us in deadlines if deadline_us is not None]
    assert [round(left, -1) for left in lefts] == [600, 60, 7200]


def test_a_wait_that_was_too_short_is_a_result_and_not_an_error(tmp_path: Path) -> None:
    agent = Agent(tmp_path, waits(file="never", max_seconds=0.05))
    agent.go()
    ((outcome, output),) = agent.told()
    assert outcome == "ok"
    assert output.startswith("Woken without it. The time was over")


def test_what_the_user_says_meanwhile_ends_the_wait_and_is_heard_in_the_next_step(tmp_path: Path) -> None:
    agent = Agent(tmp_path, waits(file="never"))

    async def went() -> TurnEnded:
        async with asyncio.timeout(60), agent.awake() as session:
            await session.say("go")
            await wait_for(session, WaitStarted)
            await session.say("forget it")
            return await wait_for(session, TurnEnded)

    assert asyncio.run(went()).ending == "done"
    (ended,) = agent.events(WaitEnded)
    assert ended.cause == "cancelled"
    assert "forget it" in str(agent.sent()[-1])


def test_stopping_the_turn_ends_the_wait_at_once(tmp_path: Path) -> None:
    agent = Agent(tmp_path, waits(file="never", command="sleep 60"))

    async def went() -> None:
        async with asyncio.timeout(60), agent.awake() as session:
            await session.say("go")
            await wait_for(session, WaitStarted)
            await session.stop()

    asyncio.run(went())
    (ended,) = agent.events(WaitEnded)
    assert ended.cause == "cancelled"
    assert [ended.ending for ended in agent.events(TurnEnded)] == ["interrupted"]


def test_the_time_limit_of_the_turn_counts_while_it_waits(tmp_path: Path) -> None:
    agent = Agent(tmp_path, waits(file="never"))

    async def went() -> TurnEnded:
        async with agent.awake(limits=Limits(timeout_s=60)) as session:
            await session.say("go")
            await wait_for(session, WaitStarted)
            pass_time(60)
            return await wait_for(session, TurnEnded)

    ended = asyncio.run(went())
    assert (ended.ending, [item.cause for item in agent.events(WaitEnded)]) == ("limit", ["cancelled"])


def test_waits_are_no_lack_of_progress_but_broken_ones_are(tmp_path: Path) -> None:
    agent = Agent(tmp_path, *[waits(seconds=0)] * 40)
    assert agent.go().ending == "done"
    broken = Agent(tmp_path / "b", *[calls(call("wait", {"pids": "x"}))] * 40)
    assert broken.go().ending == "failed"


def test_a_call_that_was_interrupted_goes_on_with_its_wait_on_record(tmp_path: Path) -> None:
    agent = Agent(tmp_path, waits(command="test -e made", file="never"))
    (agent.work / "made").touch()
    agent.go()
    killed = Agent(tmp_path / "again", waits(command="test -e made", file="never"))
    copied = agent.killed_after(tmp_path / "again" / "home", agent.seq(WaitStarted))
    assert copied.events(WaitEnded) == []
    (killed.work / "made").touch()

    async def resumed() -> TurnEnded:
        async with asyncio.timeout(60), killed.awake() as session:
            return await take(session)

    assert asyncio.run(resumed()).ending == "done"
    assert killed.events(WaitStarted) == agent.events(WaitStarted)
    (ended,) = killed.events(WaitEnded)
    assert (ended.cause, ended.met) == ("met", (1,))
    assert [outcome for outcome, _ in killed.told()] == ["ok"]


def test_a_call_that_died_right_after_its_wake_tells_the_same_wake(tmp_path: Path) -> None:
    agent = Agent(tmp_path, waits(file="made"))
    (agent.work / "made").touch()
    agent.go()
    killed = Agent(tmp_path / "again", waits(file="made"))
    agent.killed_after(tmp_path / "again" / "home", agent.seq(WaitEnded))

    async def resumed() -> TurnEnded:
        async with killed.awake() as session:
            return await take(session)

    assert asyncio.run(resumed()).ending == "done"
    assert killed.events(WaitEnded) == agent.events(WaitEnded)
    assert killed.told() == agent.told()


def test_the_address_of_a_callback_is_in_the_file_and_whoever_calls_it_wakes_the_agent(
    tmp_path: Path,
) -> None:
    agent = Agent(tmp_path, waits(callback_file="url.txt"))

    async def went() -> TurnEnded:
        async with asyncio.timeout(60), self_calling(agent) as session:
            return await take(session, "go")

    @asynccontextmanager
    async def self_calling(agent: Agent) -> AsyncGenerator[Any]:
        async with agent.awake() as session, asyncio.TaskGroup() as group:
            group.create_task(post_when_there(agent.work / "url.txt"))
            yield session

    assert asyncio.run(went()).ending == "done"
    outcome, output = agent.told()[0]
    assert outcome == "ok"
    assert "the results are in" in output


async def post_when_there(file: Path) -> None:
    while not (file.exists() and file.read_text().endswith("\n")):
        await asyncio.sleep(0)
    assert await called(file.read_text().strip(), b"the results are in") == "HTTP/1.1 200 OK"

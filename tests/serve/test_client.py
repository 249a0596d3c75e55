"""Programs and other machines steer sessions through a real server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from mainspring.app.operations.messages import LeftMessage, inbox_of
from mainspring.app.records import recording
from mainspring.client import Client, ServerError
from mainspring.events import AssistantSaid, TextDelta, TurnEnded, UserSaid
from mainspring.serve.hub import Hub
from mainspring.settings import load_config
from tests.cli.conftest import Machine
from tests.serve.conftest import Served
from tests.serve.test_sessions import call

WAIT = "while [ ! -e go ]; do sleep 0.05; done"


@pytest.fixture
def laptop(tmp_path: Path) -> Machine:
    """Another machine, with a home of its own."""
    (tmp_path / "laptop").mkdir()
    return Machine(tmp_path / "laptop")


def test_a_program_starts_watches_answers_and_queues(served: Served) -> None:
    model = served.machine.serve(call("touch made"), call(WAIT), {"text": "first"}, {"text": "second"})

    async def work() -> tuple[list[str], bool]:
        client = Client(served.address, served.token, environment={})
        session = await client.start(
            "begin", workspace=str(served.machine.workspace), model=model, mode="ask"
        )
        last, texts, is_streamed = 0, list[str](), False
        async for recorded in client.follow(session):
            last = recorded.seq or last
            if isinstance(recorded.event, TurnEnded):
                break
        (asked,) = await client.questions(session)
        assert asked.tool == "shell"
        await client.answer(session)
        async for recorded in client.follow(session, after=last):
            last, event = recorded.seq or last, recorded.event
            is_streamed = is_streamed or isinstance(event, TextDelta)
            if isinstance(event, TurnEnded) and event.ending == "blocked":
                await client.answer(session)
                told = await client.queue(session, "and then this")
                assert told.state == "waiting"
                (served.machine.workspace / "go").touch()
            if isinstance(event, AssistantSaid) and event.text:
                texts.append(event.text)
            if texts == ["first", "second"] and isinstance(event, TurnEnded):
                break
        said = [item.event for item in [each async for each in client.events(session)]]
        assert (await client.session(session)).events == len(said)
        with pytest.raises(ServerError) as missing:
            await client.session("nosuch")
        assert missing.value.status == 404
        return texts, is_streamed

    assert asyncio.run(work()) == (["first", "second"], True)
    assert (served.machine.workspace / "made").exists()


def test_what_is_queued_is_said_here_when_the_process_that_ran_the_turn_is_gone(served: Served) -> None:
    model = served.machine.serve(call(WAIT), {"text": "done"}, {"text": "later"})
    run = served.machine.start("run", "--model", model, "--mode", "auto", "begin")
    with served.client() as client:
        while not (rows := client.get("/api/v1/sessions").json()):
            pass
    session = rows[0]["id"]
    served.until(session, "CallStarted")
    assert served.post(f"/sessions/{session}/queue", {"text": "and then"})["state"] == "waiting"
    (served.machine.workspace / "go").touch()
    run.communicate(timeout=60)
    first = served.until(session, "TurnEnded")
    assert [event["body"]["text"] for event in first if event["kind"] == "UserSaid"] == ["begin"]
    more = served.until(session, "TurnEnded", after=first[-1]["seq"])
    assert [event["body"]["text"] for event in more if event["kind"] == "UserSaid"] == ["and then"]


def test_what_is_queued_is_answered_when_the_process_that_took_it_is_killed(served: Served) -> None:
    model = served.machine.serve(call(WAIT), {"text": "one answer"}, {"text": "and another"})
    run = served.machine.start("run", "--model", model, "--mode", "auto", "begin")
    try:
        with served.client() as client:
            while not (rows := client.get("/api/v1/sessions").json()):
                pass
        session = rows[0]["id"]
        served.until(session, "CallStarted")
        assert served.post(f"/sessions/{session}/queue", {"text": "and then"})["state"] == "waiting"
        inbox = inbox_of(load_config(served.machine.environment()), session)
        (left,) = inbox.waiting()
        assert inbox.begin(left.id)
    finally:
        run.kill()
        run.communicate(timeout=60)
    said = served.until(session, "TurnEnded")
    texts = [event["body"]["text"] for event in said if event["kind"] == "UserSaid"]
    assert texts == ["begin", "and then"]


def test_what_is_queued_is_answered_when_a_process_recorded_it_as_its_last_act(machine: Machine) -> None:
    """A session that is closed records what it had taken, and begins no turn any more."""
    model = machine.serve({"text": "first"}, {"text": "second"})
    assert machine.run("run", "--model", model, "--mode", "auto", "begin").returncode == 0
    (folder,) = (machine.home / "sessions").iterdir()
    config = load_config(machine.environment())

    async def work() -> list[str]:
        async with recording(folder.name, config) as recorder:
            await recorder.record(UserSaid(text="and then", command="c"))
        async with Hub() as hub, asyncio.timeout(60):
            message = LeftMessage("c", "and then", inbox_of(config, folder.name))
            await hub._see_said(config, folder.name, "and then", message)
            session = hub.here(folder.name)
            assert session is not None
            async with aclosing(session.subscribe(session.opened_seq)) as events:
                async for recorded in events:
                    if isinstance(recorded.event, AssistantSaid):
                        return [recorded.event.text]
        return []

    assert asyncio.run(work()) == ["second"]


def test_one_machine_steers_the_sessions_of_another(served: Served, laptop: Machine) -> None:
    model = served.machine.serve(call("touch made"), {"text": "done"})
    refused = laptop.run("sessions", "--server", served.address)
    assert (refused.returncode, "not paired" in refused.stderr) == (2, True)
    code = served.post("/devices/offer", {"role": "steer", "name": "laptop"})["code"]
    listed = laptop.run("sessions", "--server", f"{served.address}/#pair={code}")
    assert listed.returncode == 0, listed.stderr
    there = ("--server", served.address)
    folder = str(served.machine.workspace)
    limits = ("--max-calls", "7", "--max-tokens", "99999", "--max-cost-usd-today", "3", "--allow-unpriced")
    ran = laptop.run("run", *there, "-C", folder, "--mode", "ask", "--model", model, *limits, "begin")
    assert ran.returncode == 3, ran.stderr
    session = served.get("/sessions")[0]["id"]
    blocked = served.until(session, "TurnEnded")[-1]["seq"]
    assert laptop.run("approve", *there, session).returncode == 0
    served.until(session, "TurnEnded", after=blocked)
    shown = laptop.run("show", *there, session)
    assert ("touch made" in shown.stdout, shown.returncode) == (True, 0)
    assert session in laptop.run("sessions", *there).stdout
    stopped = laptop.run("stop", *there, session)
    assert (stopped.returncode, "no turn" in stopped.stderr or "Nobody runs" in stopped.stderr) == (1, True)
    assert (served.machine.workspace / "made").exists()
    started = next(each["body"] for each in served.machine.events(session) if each["kind"] == "TurnStarted")
    assert (started["limits"]["max_calls"], started["limits"]["max_tokens"]) == (7, 99999)
    assert started["limits"]["day"]["usd"] == 3
    (given,) = [event for event in served.machine.events(session) if event["kind"] == "ApprovalGiven"]
    assert given["body"]["origin"]["device"] == "laptop"


@pytest.mark.parametrize(
    "given",
    [
        ("--sandbox", "none"),
        ("--attach", "a.png"),
        ("--attempts", "2"),
        ("--check", "true"),
        ("--output-schema", "schema.json"),
        ("--input-format", "jsonl"),
        ("--allow-home",),
        ("--no-gateway",),
    ],
)
def test_what_another_machine_is_not_told_is_refused_and_not_dropped(
    laptop: Machine, given: tuple[str, ...]
) -> None:
    ran = laptop.run("run", "--server", "http://127.0.0.1:1", "-C", "/srv", *given, "go")
    assert (ran.returncode, f"{given[0]} is not possible with --server" in ran.stderr) == (2, True), (
        ran.stderr
    )


def test_every_option_of_run_is_passed_on_or_refused(laptop: Machine) -> None:
    """Of those that are passed on, each is a field of the request."""
    from mainspring.cli.remote import _PASSED_ON
    from mainspring.serve.hub import StartSession

    assert set(_PASSED_ON) <= set(StartSession.__struct_fields__)

"""Slow readers, many readers, and processes that are killed harm nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.records import compose_session
from mainspring.events import Event, NoteAdded, SessionStarted
from mainspring.serve.channels import Channels
from mainspring.serve.hub import Hub
from mainspring.settings import load_config
from tests.cli.conftest import Machine, until
from tests.serve.conftest import Served
from tests.serve.test_sessions import WAIT, begin, call


def subscribe(served: Served, session: str, *, receive_bytes: int = 0) -> socket.socket:
    made = socket.socket()
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.connect(("127.0.0.1", int(served.port)))
    head = f"GET /api/v1/sessions/{session}/stream HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
    made.sendall(f"{head}Authorization: Bearer {served.token}\r\n\r\n".encode())
    return made


def test_a_hundred_readers_get_everything_while_one_reads_nothing(served: Served) -> None:
    large = call("yes 0123456789 | head -c 200000")
    session = begin(served, call(WAIT), *[large] * 3, {"text": "the last words"})
    served.until(session, "CallStarted")
    with ExitStack() as stack:
        stack.enter_context(subscribe(served, session, receive_bytes=4096))
        readers = [stack.enter_context(subscribe(served, session)) for _ in range(100)]
        (served.machine.workspace / "go").touch()
        got = dict.fromkeys(readers, b"")
        deadline, waiting = time.monotonic() + 50, set(readers)
        while waiting and time.monotonic() < deadline:
            for reader in select.select(list(waiting), (), (), 1)[0]:
                got[reader] += reader.recv(1 << 20)
                if b'"kind":"TurnEnded"' in got[reader]:
                    waiting.discard(reader)
        assert not waiting
    for text in got.values():
        numbers = [int(line[4:]) for line in text.split(b"\n") if line.startswith(b"id: ")]
        assert numbers == list(range(1, len(numbers) + 1))
    assert json.loads(json.dumps(served.get(f"/sessions/{session}")))["state"] == "done"


def test_readers_that_come_at_once_share_what_is_read(tmp_path: Path) -> None:
    """As after a restart of a server that many pages watch."""
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    events = 2000

    def written(session: str) -> Iterator[tuple[int, Event]]:
        yield 1, SessionStarted(session=session, workspace="/", version="0")
        yield from ((2, NoteAdded(text=f"note {number}")) for number in range(events - 1))

    async def spent_s(readers: int) -> float:
        async with Hub() as hub:
            channels = Channels(config, hub)

            async def read() -> None:
                last = b"id: %d\n" % events
                async with aclosing(channels.follow(session, 0)) as frames:
                    async for data in frames:
                        if last in data:
                            return

            start = time.process_time()
            await asyncio.gather(*(read() for _ in range(readers)))
            return time.process_time() - start

    session = asyncio.run(compose_session(written, config))
    one = min(asyncio.run(spent_s(1)) for _ in range(3))
    assert asyncio.run(spent_s(40)) < 20 * one


def test_a_session_whose_process_was_killed_goes_on_here(served: Served) -> None:
    model = served.machine.serve(call(WAIT), {"text": "went on"})
    run = served.machine.start("run", "--json", "--model", model, "--mode", "auto", "begin")
    session = until(run, "CallStarted")[0]["body"]["session"]
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=60)
    seen = served.until(session, "CallStarted")
    assert served.get(f"/sessions/{session}")["state"] == "crashed"
    (served.machine.workspace / "go").touch()
    assert served.post(f"/sessions/{session}/say", {"text": "go on"})["owner"] == "this server"
    rest = served.until(session, "TurnEnded", after=seen[-1]["seq"])
    numbers = [event["seq"] for event in (*seen, *rest) if event["seq"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert rest[-1]["body"]["ending"] == "done"


@pytest.fixture
def full(machine: Machine) -> Iterator[Callable[[bool], None]]:
    """Fills the disk of a server, a small file system of its own, and empties it again."""
    machine.home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(machine.home)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only an administrator may make a file system")
    ballast = machine.home / "ballast"

    def fill(is_full: bool) -> None:
        ballast.unlink(missing_ok=True)
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while is_full:
                file.write(bytes(4096))

    yield fill
    subprocess.run(["umount", "--lazy", str(machine.home)], check=True, capture_output=True)


def test_a_full_disk_is_said_streams_stay_and_nothing_that_was_told_is_lost(
    machine: Machine, full: Callable[[bool], None]
) -> None:
    served = Served(machine)
    try:
        session = begin(served, call(WAIT), {"text": "not yet"}, {"text": "at last"})
        events = served.stream(f"/sessions/{session}/stream")
        seen = list(takewhile_including(events, "CallStarted"))
        full(True)
        with served.client() as client:
            for path, body in (
                (f"/sessions/{session}/note", {"text": "x" * 50_000}),
                (
                    "/sessions",
                    {
                        "text": "x",
                        "workspace": str(machine.workspace),
                        "model": "openai-compatible@http://127.0.0.1:1#x",
                    },
                ),
                ("/devices/offer", {"role": "watch", "name": "x" * 60}),
            ):
                answer = client.post(f"/api/v1{path}", json=body)
                assert answer.status_code in (400, 507), answer.text
                assert "disk" in answer.json()["error"]["message"].lower(), answer.text
            assert client.get("/api/v1/sessions").status_code == 200
        full(False)
        assert served.post(f"/sessions/{session}/note", {"text": "there is room"})["state"]
        (machine.workspace / "go").touch()
        seen += takewhile_including(events, "TurnEnded")
        assert seen[-1]["body"]["ending"] == "done"
        numbers = [event["seq"] for event in seen if event["seq"]]
        assert numbers == list(range(1, len(numbers) + 1))
    finally:
        served.end()
    assert [event["seq"] for event in machine.events(session)][: len(numbers)] == numbers
    assert machine.run("verify", session).returncode == 0


def takewhile_including(events: Iterator[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    for event in events:
        yield event
        if event["kind"] == kind:
            return


_FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)


@pytest.mark.skipif(_FAKETIME is None, reason="faketime is not installed (Debian: faketime)")
def test_a_clock_that_jumps_loses_no_event_no_device_and_keeps_no_code_alive(
    machine: Machine, tmp_path: Path
) -> None:
    offset = tmp_path / "offset"

    def set_clock(by: str) -> None:
        fresh = offset.with_suffix(".new")
        fresh.write_text(f"{by}\n")
        fresh.replace(offset)

    set_clock("+0")
    served = Served(machine, LD_PRELOAD=str(_FAKETIME), FAKETIME_TIMESTAMP_FILE=str(offset), FAKETIME_NO_CACHE="1",
                    FAKETIME_DONT_FAKE_MONOTONIC="1", DONT_FAKE_MONOTONIC="1")  # fmt: skip
    try:
        session = begin(served, call(WAIT), {"text": "done"})
        events = served.stream(f"/sessions/{session}/stream")
        seen = list(takewhile_including(events, "CallStarted"))
        codes = [served.post("/devices/offer", {"role": "watch"})["code"] for _ in range(3)]
        phone = served.post("/pair", {"code": codes[0], "name": "phone"}, token="")["token"]
        for by in ("+2d", "-2d"):
            set_clock(by)
            with served.client(phone) as device, served.client("") as stranger:
                assert device.get("/api/v1/about").status_code == 200
                late = stranger.post("/api/v1/pair", json={"code": codes.pop(), "name": "late"})
                assert late.status_code == 401
            assert served.post(f"/sessions/{session}/note", {"text": by})["state"]
        (machine.workspace / "go").touch()
        seen += takewhile_including(events, "TurnEnded")
    finally:
        served.end()
    numbers = [event["seq"] for event in seen if event["seq"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert seen[-1]["body"]["ending"] == "done"

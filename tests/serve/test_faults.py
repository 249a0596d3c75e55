"""Slow readers, many readers, and processes that are killed harm nobody else."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from contextlib import ExitStack

from tests.cli.conftest import until
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

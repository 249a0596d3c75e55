"""What `mainspring serve` costs: events to many readers with one that reads nothing, nothing to do, the way
of an event to a client, and a list of a thousand sessions. The floor of the stream is one reading."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from bench.measure import ms, python, row, timing
from mainspring.app.operations.sessions import read_events
from mainspring.app.records import create_recorder, recording
from mainspring.app.stores import sessions_of
from mainspring.events import NoteAdded, SessionStarted, UserSaid
from mainspring.sandbox.custody.tree import TICKS_PER_S
from mainspring.secrets.recorder import Recorder
from mainspring.settings import Config, load_config

EVENTS, READERS, SESSIONS, IDLE_S = 3000, 100, 1000, 20.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = load_config({**os.environ, "MAINSPRING_HOME": str(Path(folder) / "home")})
        session = asyncio.run(_written(config, EVENTS))
        with _Server(config) as server:
            server.get("/sessions")
            share, memory = server.idle()
            row(f"processor without readers, over {IDLE_S:g} s", f"{share * 100:.3f} %", "", "target 0.1 %")
            row("memory without readers", f"{memory:.0f} MB", "", "target 80 MB")
            floor_s = asyncio.run(_read_s(config, session))
            taken_s = server.stream_s(config)
            rate = EVENTS / taken_s
            ratio = f"{taken_s / floor_s:.1f} x one reading"
            row(
                f"events a second to {READERS} readers, one stalled",
                f"{rate:,.0f}",
                ratio,
                "target 1,500",
                rate=rate,
            )
            timing("note to a client, also to disk", server.note_s(config), target="target 50 ms")
        for _ in range(SESSIONS - 1):
            asyncio.run(_written(config, 1))
        with _Server(config) as server:
            server.get("/sessions?limit=1000")
            start = time.perf_counter()
            found = len(server.get("/sessions?limit=1000"))
            taken_s = time.perf_counter() - start
            row(f"list of {found:,} sessions", ms(taken_s), "", "target 300 ms", median_s=taken_s)


async def _written(config: Config, events: int) -> str:
    recorder = await create_recorder(sessions_of(config), config)
    try:
        await recorder.record(
            SessionStarted(session=recorder.session, workspace="/", version="0"), UserSaid(text="x")
        )
        await _notes(recorder, events)
        return recorder.session
    finally:
        await recorder.close()


async def _added(config: Config, session: str, events: int) -> None:
    async with recording(session, config) as recorder:
        await _notes(recorder, events)


async def _notes(recorder: Recorder, events: int) -> None:
    for first in range(0, events, 500):
        await recorder.record(*(NoteAdded(text=f"note {first + n}") for n in range(min(500, events - first))))


async def _read_s(config: Config, session: str) -> float:
    start = time.perf_counter()
    async for _ in read_events(config, session):
        pass
    return time.perf_counter() - start


class _Server:
    def __init__(self, config: Config) -> None:
        self._process = subprocess.Popen(
            python("-m", "mainspring", "serve", "--port", "0"),
            env=dict(config.environment),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address, self.token = self._process.stdout.readline().strip().split("/#token=")
        self.port = int(self.address.rsplit(":", 1)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.address}/api/v1{path}", data, headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
            return json.load(answer)

    get = ask

    def idle(self) -> tuple[float, float]:
        time.sleep(2)
        before = self._ticks()
        time.sleep(IDLE_S)
        share = (self._ticks() - before) / TICKS_PER_S / IDLE_S
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return share, pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _ticks(self) -> int:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def subscribed(self, session: str, after: int = 0) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port))
        head = (
            f"GET /api/v1/sessions/{session}/stream?after={after} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        )
        made.sendall(f"{head}Authorization: Bearer {self.token}\r\n\r\n".encode())
        return made

    def stream_s(self, config: Config) -> float:
        """From when events are recorded until all readers but the stalled one have the last one."""
        with ExitStack() as stack:
            session = asyncio.run(_written(config, 1))
            stack.enter_context(self.subscribed(session))
            tails = {stack.enter_context(self.subscribed(session)): b"" for _ in range(READERS)}
            for reader in tails:
                reader.recv(1 << 16)
            start = time.perf_counter()
            asyncio.run(_added(config, session, EVENTS))
            last = b'"note %d"' % (EVENTS - 1)
            while tails:
                for reader in select.select(list(tails), (), ())[0]:
                    tails[reader] = tails[reader][-100:] + reader.recv(1 << 20)
                    if last in tails[reader]:
                        del tails[reader]
            return time.perf_counter() - start

    def note_s(self, config: Config) -> list[float]:
        """From the request to the event at a client, for a session that nobody runs."""
        session, taken = asyncio.run(_written(config, 1)), list[float]()
        with self.subscribed(session) as reader:
            for number in range(20):
                start, text = time.perf_counter(), b""
                self.ask(f"/sessions/{session}/note", {"text": f"mark {number}."})
                while b"mark %d." % number not in text:
                    text += reader.recv(1 << 16)
                taken.append(time.perf_counter() - start)
        return taken

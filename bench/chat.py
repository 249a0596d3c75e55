"""What a chat costs: from the command to its prompt, while text streams, while nothing happens, and between a
key and its echo. The chat has a real terminal (a pty); CPU time is the kernel's count for its process.

Floors of the same run: `python -c pass` for starts, `mainspring run` of the same answer for streaming, and
opening a new session for a long one.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.measure import by_turns, command_s, median, python, row, timing
from bench.resume import SESSION, close_in_order, write
from bench.serving import served
from mainspring.events import TurnEnded

EVENTS = 10_000
TOKENS_PER_S = 100
STREAM_S, IDLE_S = 12.0, 10.0
KEYS = 40
_TICK = os.sysconf("SC_CLK_TCK")
_CPU_OF_PROCESS = 2
"""The clock of a process is made of its id and this number (CPUCLOCK_SCHED)."""
_PARAGRAPH = (
    "The **total** of `prices` is what the test expects, and this is how it comes about: word word.\n\n"
)


class Terminal:
    """A chat on a pty; everything that it writes is kept."""

    def __init__(self, home: Path, folder: Path, *arguments: str) -> None:
        self._here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen = b""
        self.started_s = time.perf_counter()
        self.process = subprocess.Popen(
            python("-m", "mainspring", "chat", *arguments),
            stdin=there, stdout=there, stderr=there, cwd=folder, start_new_session=True,
            env={**os.environ, "MAINSPRING_HOME": str(home), "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(there)

    def until(self, wanted: bytes, *, after: int = 0) -> float:
        """Seconds since the start until something is written."""
        while wanted not in self.seen[after:]:
            assert self.read(60), f"{wanted!r} did not come: {self.seen[-2000:]!r}"
        return time.perf_counter() - self.started_s

    def read(self, within_s: float) -> bool:
        if not select.select([self._here], [], [], within_s)[0]:
            return False
        self.seen += os.read(self._here, 1 << 16)
        return True

    def type(self, text: bytes) -> None:
        os.write(self._here, text)

    def cpu_s(self) -> float:
        """Of the whole process, in nanoseconds: ticks of 10 ms are too coarse for a chat at rest."""
        return time.clock_gettime(~self.process.pid << 3 | _CPU_OF_PROCESS)

    def wakeups(self) -> int:
        """How often its threads have waited for something."""
        lines = [
            line
            for each in Path(f"/proc/{self.process.pid}/task").iterdir()
            for line in (each / "status").read_text().splitlines()
        ]
        return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        while self.process.poll() is None:
            try:
                self.read(0.1)
            except OSError:  # nobody has the other end open any more
                self.process.wait()
        os.close(self._here)


@contextmanager
def chat(home: Path, folder: Path, *arguments: str) -> Iterator[Terminal]:
    opened = Terminal(home, folder, *arguments)
    try:
        yield opened
    finally:
        opened.close()


def main() -> None:
    text = _PARAGRAPH * 200
    script = {"replies": [{"text": text, "chunk_size": 4, "delay_s": 1 / TOKENS_PER_S}]}
    with tempfile.TemporaryDirectory() as place, served(script) as server:
        home, folder = Path(place) / "home", Path(place) / "workspace"
        folder.mkdir()
        model = ("--model", f"openai-compatible@{server.url}#m")
        starts(home, folder, model)
        streaming(home, folder, model)
        idle(home, folder, model)
        long_session(home, folder, model)


def starts(home: Path, folder: Path, model: tuple[str, str]) -> None:
    def started(wanted: bytes) -> float:
        with chat(home, folder, *model) as opened:
            return opened.until(wanted)

    floor, prompt, ready = by_turns(
        9,
        partial(command_s, python("-c", "pass")),
        partial(started, b"\xe2\x80\xba"),
        partial(started, b"/help lists"),
    )
    timing("chat: start to prompt", prompt, floor=floor, target="target 350 ms")
    timing("chat: start to an open session", ready, floor=floor)


def streaming(home: Path, folder: Path, model: tuple[str, str]) -> None:
    with chat(home, folder, *model) as opened:
        opened.until(b"/help lists")
        opened.type(b"go\r")
        opened.until(b"what the test expects")
        before_cpu_s, before_s = opened.cpu_s(), time.perf_counter()
        while time.perf_counter() - before_s < STREAM_S:
            opened.read(0.1)
        share = (opened.cpu_s() - before_cpu_s) / (time.perf_counter() - before_s)
        echoes = [echo_s(opened, b"abcdefghij"[at % 10 : at % 10 + 1]) for at in range(KEYS)]
        opened.type(b"\x1b")
    row(f"chat: CPU at {TOKENS_PER_S} tokens a second", f"{share:.1%} of a core",
        f"{share / plain_share(home, folder, model):.2f} x run", "target 5 %", share=share)  # fmt: skip
    timing("chat: key to echo while streaming", echoes, target="target 16 ms")


def echo_s(opened: Terminal, key: bytes) -> float:
    """From a key to the write that shows it: the first that begins after the key and holds it."""
    while opened.read(0.0):
        pass
    time.sleep(0.037)  # keys fall on any part of a frame
    while opened.read(0.0):
        pass
    after, start = len(opened.seen), time.perf_counter()
    opened.type(key)
    while key not in opened.seen[after:]:
        assert opened.read(10)
    return time.perf_counter() - start


def plain_share(home: Path, folder: Path, model: tuple[str, str]) -> float:
    """The CPU of `mainspring run` for the same stream, as a share of a core, its start left out."""
    with open(folder / "out", "wb") as out:
        run = subprocess.Popen(
            python("-m", "mainspring", "run", *model, "go"), cwd=folder, stdout=out, stderr=out,
            env={**os.environ, "MAINSPRING_HOME": str(home)},
        )  # fmt: skip
        time.sleep(2)
        stat = Path(f"/proc/{run.pid}/stat")
        used = [sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) for _ in pauses(6.0)]
        run.send_signal(signal.SIGINT)
        run.wait()
    return max((used[1] - used[0]) / _TICK / 6.0, 0.001)


def pauses(seconds: float) -> Iterator[None]:
    yield
    time.sleep(seconds)
    yield


def idle(home: Path, folder: Path, model: tuple[str, str]) -> None:
    with chat(home, folder, *model) as opened:
        opened.until(b"/help lists")
        while opened.read(1.0):
            pass
        before, woken = opened.cpu_s(), opened.wakeups()
        time.sleep(IDLE_S)
        share = (opened.cpu_s() - before) / IDLE_S
        a_minute = (opened.wakeups() - woken) / IDLE_S * 60
    row("chat: CPU while nothing happens", f"{share:.3%} of a core", f"{a_minute:.0f} wakeups a minute",
        "target 0.1 %", share=share)  # fmt: skip


def long_session(home: Path, folder: Path, model: tuple[str, str]) -> None:
    long = home.parent / "long"
    over = TurnEnded(turn=1, ending="done")
    asyncio.run(write(long, str(folder), model[1], events=EVENTS, ends=[over]))
    asyncio.run(close_in_order(long))

    def opened_s(kept: Path, *arguments: str) -> float:
        with chat(kept, folder, *arguments) as opened:
            return opened.until(b"/help lists")

    new, old = by_turns(7, partial(opened_s, home, *model), partial(opened_s, long, "--resume", SESSION))
    timing(f"chat: a session of {EVENTS:,} events opens", old, floor=new, target="target 500 ms")
    shutil.rmtree(long)
    row("chat: of that beyond an empty one", f"{(median(old) - median(new)) * 1000:.0f} ms")

"""What every fake agent does, whatever format it speaks: the words of its prompt say what.

`work` uses a tool and answers; `size` answers with the length and hash of its prompt; `fail` exits with 3;
`reaching` takes turns of a goal; `hang` leaves a stubborn child behind and never ends; `stray` leaves one behind
and ends; `garbage` prints what is no event; `long` prints a line of 3 MB; `half` dies in the middle of a line; `open` never ends its call.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol


class Format(Protocol):
    def begin(self) -> None: ...

    def say(self, text: str) -> None: ...

    def call(self, command: str) -> None: ...

    def result(self, output: str, code: int) -> None: ...

    def end(self) -> None: ...


def put(line: dict[str, Any] | str) -> None:
    sys.stdout.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    sys.stdout.flush()


def child(marker: str) -> subprocess.Popen[bytes]:
    """A process that ignores SIGTERM, holds our output, and has begun."""
    script = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " os.write(2, b'here\\n'); time.sleep(600)"
    )
    argv = [sys.executable, "-c", script, marker]
    started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert started.stderr is not None
    started.stderr.readline()
    return started


def marker(prompt: str) -> str:
    return next((word for word in prompt.split() if word.startswith("marker-")), "marker-none")


def act(form: Format, prompt: str) -> None:
    if "--version" in sys.argv:
        print("fake 1.2.3")
        return
    form.begin()
    words = set(prompt[:2000].split())
    for name in ("reaching", "size", "fail", "hang", "stray", "garbage", "long", "half", "open"):
        if name in words:
            PLOTS[name](form, prompt)
            return
    work(form)


def work(form: Format) -> None:
    form.say("I make a file.")
    form.call("echo made > made.txt")
    Path("made.txt").write_text("made\n")
    form.result("made", 0)
    form.call("false")
    form.result("", 1)
    form.say("All is finished.\nDONE")
    form.end()


def size(form: Format, prompt: str) -> None:
    form.say(f"{len(prompt)} {hashlib.sha256(prompt.encode()).hexdigest()}")
    form.end()


def fail(form: Format, prompt: str) -> None:
    del prompt
    form.say("DONE")
    sys.stderr.write("it broke\n")
    sys.exit(3)


def hang(form: Format, prompt: str) -> None:
    ignore_asking()
    child(marker(prompt))
    form.say("hanging here\nfor ever and ever")
    form.call("sleep")
    while True:
        time.sleep(600)


def ignore_asking() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def stray(form: Format, prompt: str) -> None:
    child(marker(prompt))
    form.say("gone")
    form.end()


def garbage(form: Format, prompt: str) -> None:
    del prompt
    put("Warning: this is no event")
    put('{"type": 5}')
    put("[1, 2")
    form.say("still here")
    form.end()


def long(form: Format, prompt: str) -> None:
    del prompt
    form.say("x" * 3_000_000)
    form.say("short")
    form.end()


def half(form: Format, prompt: str) -> None:
    del prompt
    form.call("work")
    sys.stdout.write('{"type":"item.comp')
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSEGV)


def leave_open(form: Format, prompt: str) -> None:
    del prompt
    form.call("first")
    form.say("never mind")
    form.end()


def reach(form: Format, prompt: str) -> None:
    """One turn of a goal; the third is the last."""
    turn = re.findall(r"^Turn ([0-9]+)", prompt, re.MULTILINE)[-1]
    Path(f"turn{turn}.txt").write_text(turn)
    form.say("Well.\n\n<promise>DONE</promise>" if turn == "3" else "Working.")
    form.end()


PLOTS = {
    "reaching": reach,
    "size": size,
    "fail": fail,
    "hang": hang,
    "stray": stray,
    "garbage": garbage,
    "long": long,
    "half": half,
    "open": leave_open,
}

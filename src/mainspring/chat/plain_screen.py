"""A chat in plain lines: nothing is redrawn, no key is special, and words stand in the place of marks. For
screen readers, dumb terminals and pipes."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from typing import TextIO

from mainspring.chat.palette import Palette
from mainspring.chat.questions import OpenQuestions
from mainspring.chat.surface import Choice, Controls

_WORDS = {
    "›": "you:",
    "✓": "done:",
    "✗": "failed:",
    "·": "note:",
    "!": "attention:",
    "?": "question:",
    "■": "turn",
    "✻": "thinking:",
    "+": "added",
    "~": "changed",
    "-": "removed",
    "•": "item:",
    "☐": "open:",
    "▶": "begun:",
    "☑": "done:",
    "◷": "wait:",
    "⑂": "agent:",
    "⇢": "elsewhere:",
    "◎": "goal:",
    "⟳": "attempt:",
    "⚒": "fix:",
    "→": "call:",
    "⚠": "attention:",
    "▌": "quote:",
}
_DIFF = re.compile(r"(\s+\d+) ([+-]) ")
_COLUMNS = 80
_ANSWERS = (
    "question: type y (once), a, p or f (always in this session, in this project, for ever), e NEW COMMAND,"
    " n WHY, or s (stop the turn), then Enter."
)
_SEVERAL = "question: several are open. Begin with the number of one, or with all: 2 y, all n."


class PlainScreen:
    """Writes lines and reads lines."""

    takes_lines = True
    is_lent = False

    def __init__(self, controls: Controls, questions: OpenQuestions, stdin: TextIO, stdout: TextIO) -> None:
        self.palette = Palette(theme="mono", is_styled=False)
        self._controls = controls
        self._questions = questions
        self._stdin = stdin
        self._stdout = stdout
        self._closed = asyncio.Event()
        self._told: frozenset[str] = frozenset()

    @property
    def columns(self) -> int:
        return _COLUMNS

    def write(self, text: str) -> None:
        self._stdout.write("\n".join(map(worded, text.split("\n"))) + "\n")
        self._stdout.flush()

    def set_input(self, text: str) -> None:
        if text:
            self.write(f"· what was said there: {text}")

    def take_input(self) -> str:
        return ""

    def complete_again(self) -> None:
        """Nothing is completed here."""

    def give_back(self, text: str) -> None:
        self.write(f"· not said: {text}")

    def copy(self, text: str) -> None:
        self.write(text)

    def refresh(self) -> None:
        """Says how questions are answered, once for those that are open together."""
        open_now = frozenset(each.call for each in self._questions.waiting)
        is_first, is_second = (len(self._told) < at <= len(open_now) for at in (1, 2))
        if self._questions.is_asking and is_first:
            self.write(_ANSWERS)
        if self._questions.is_asking and is_second:
            self.write(_SEVERAL)
        self._told = open_now

    async def show_pages(self, text: str) -> None:
        self.write(text)

    async def pick(self, title: str, choices: Sequence[Choice]) -> str | None:
        """Lists them; the person gives one to the command."""
        about = [(each.value, each.title.removeprefix(each.value).lstrip()) for each in choices]
        rows = [f"  {value}: {text}" if text else f"  {value}" for value, text in about]
        self.write("\n".join([f"{title}:", *rows]))
        self.write("· give one of them to the command")
        return None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(loop))
            await self._closed.wait()
            reading.cancel()

    def close(self) -> None:
        self._closed.set()

    async def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        lines: asyncio.Queue[str] = asyncio.Queue()
        threading.Thread(target=_pump, args=(self._stdin, loop, lines), daemon=True).start()
        while line := await lines.get():
            if not self._stdin.isatty():  # whoever writes into a pipe does not look at what happens
                await self._controls.rest()
            self._controls.enter(line.rstrip("\n"))
        await self._controls.settle()
        self._closed.set()


def _pump(stdin: TextIO, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    """Reads in a thread of its own, which ends with the process: a file cannot be waited for."""
    while True:
        line = stdin.readline()
        try:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        except RuntimeError:  # the loop is closed: the chat is over
            return
        if not line:
            return


def worded(line: str) -> str:
    """A line with words in the place of its mark."""
    if changed := _DIFF.match(line):
        return f"{changed[1]} {_WORDS[changed[2]]}: {line[changed.end() :]}"
    body = line.lstrip()
    mark, rest = body[:1], body[1:]
    if mark not in _WORDS or (rest and not rest.startswith(" ")):
        return line
    return f"{line[: len(line) - len(body)]}{_WORDS[mark]}{rest}"

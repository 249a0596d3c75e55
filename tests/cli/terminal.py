"""A person at a real terminal: what they see, and what they type."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

from tests.cli.conftest import Machine


class Person:
    """Runs the command with its input and errors on a pseudo-terminal."""

    def __init__(self, machine: Machine, *arguments: str, **extra: str) -> None:
        self._screen, end = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mainspring", *arguments],
            cwd=machine.workspace,
            env=machine.environment(**extra),
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=end,
            text=True,
            start_new_session=True,
        )
        os.close(end)
        self._unread = ""
        self.seen = ""

    def until(self, text: str, *, timeout_s: float = 60) -> str:
        """Reads the screen until a text stands on it; gives what was read."""
        deadline = time.monotonic() + timeout_s
        while text not in self._unread:
            ready, _, _ = select.select([self._screen], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{text!r} did not come; the screen says:\n{self.seen}"
            try:
                read = os.read(self._screen, 65536).decode(errors="replace")
            except OSError:  # how Linux says that the other end is closed
                read = ""
            assert read, f"{text!r} did not come; the screen says:\n{self.seen}"
            self._unread += read
            self.seen += read
        shown, found, self._unread = self._unread.partition(text)
        return shown + found

    def type(self, line: str) -> None:
        os.write(self._screen, line.encode() + b"\n")

    def leave(self) -> None:
        """Ctrl-D on an empty line."""
        os.write(self._screen, b"\x04")

    def ends(self) -> int:
        """The exit code, once the rest of the screen was read."""
        while True:
            try:
                read = os.read(self._screen, 65536)
            except OSError:
                break
            if not read:
                break
            self.seen += read.decode(errors="replace")
        code = self.process.wait(60)
        os.close(self._screen)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

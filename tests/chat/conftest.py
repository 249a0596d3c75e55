"""A person at a real terminal: `mainspring` inside tmux, whose screen and scrollback are what they see."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Machine, machine

__all__ = ["machine"]
FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")


def eventually(
    condition: Callable[[], bool],
    why: Callable[[], str] = lambda: "it did not come",
    *,
    timeout_s: float = 60,
) -> None:
    """Looks until something is true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def chat_process(session: str) -> int:
    """The process that holds the lock of a session."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                opened = [os.readlink(f"/proc/{entry}/fd/{fd}") for fd in os.listdir(f"/proc/{entry}/fd")]
            except OSError:
                continue
            if any(session in path and path.endswith("owner.lock") for path in opened):
                return int(entry)
    raise AssertionError("nobody runs the session")


def _terminals() -> Iterator[str]:
    """The shells that terminals were opened for, as processes still name them."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, shell, *_ = stat.read_text().rpartition(")")[2].split()
            yield "" if state == "Z" else shell


class Tmux:
    """One terminal. A shell runs in it, so that what follows the chat can be seen as well."""

    def __init__(self, machine: Machine, folder: Path, *, columns: int = 80, rows: int = 24) -> None:
        self.machine = machine
        self._socket = str(folder / "tmux")
        variables = machine.environment(TERM="tmux-256color", LANG="C.UTF-8", PS1="shell$ ")
        shell = [f"{name}={value}" for name, value in variables.items()]
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                   "-c", str(machine.workspace), "env", "-i", *shell, "bash", "--norc", "--noprofile")  # fmt: skip
        self._tmux("set", "-g", "history-limit", "20000")
        self.set("escape-time", "0")

    def beside(self) -> Tmux:
        """A second terminal of the same person."""
        folder = self.machine.home.parent / "second"
        folder.mkdir()
        return Tmux(self.machine, folder)

    def set(self, option: str, value: str) -> None:
        """An option of the terminal itself."""
        self._tmux("set", "-s", option, value)

    def style(self, style: str) -> None:
        """The colours of the terminal, which it tells whoever asks."""
        self._tmux("set", "-g", "window-style", style)

    def start(self, *arguments: str) -> None:
        """Types the command, as a person would."""
        self.type(shlex.join([sys.executable, "-m", "mainspring", *arguments]), "Enter")

    def open(self, *arguments: str) -> None:
        """Starts a chat and waits for its session."""
        before = self.scrollback().count("/help lists")
        self.start(*arguments)
        self.until(lambda seen: seen.count("/help lists") > before)

    def left(self) -> int:
        """Waits until the shell is back; gives the exit code of the chat."""
        self.until(lambda seen: seen.rstrip().endswith("shell$"))
        self.type("echo code=$?.", "Enter")
        seen = self.until(lambda seen: "\ncode=" in seen)
        return int(seen.rpartition("\ncode=")[2].partition(".")[0])

    def type(self, text: str, *keys: str) -> None:
        if text:
            self._tmux("send-keys", "-l", "--", text)
        if keys:
            self._tmux("send-keys", *keys)

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        subprocess.run(["tmux", "-S", self._socket, "load-buffer", "-"], input=text.encode(), check=True)
        self._tmux("paste-buffer", "-p")

    def resize(self, columns: int, rows: int = 24) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self, *, is_styled: bool = False) -> str:
        return self._tmux("capture-pane", "-p", *(["-e"] if is_styled else []))

    def scrollback(self, *, is_joined: bool = True) -> str:
        """All that was ever written and still stands, lines that the terminal wrapped joined again."""
        return self._tmux("capture-pane", "-p", "-S", "-", *(["-J"] if is_joined else []))

    def until(self, wanted: str | Callable[[str], bool], *, timeout_s: float = 60) -> str:
        """Looks until a text stands there, or something is true of all that does; gives that."""
        seen = ""

        def is_there() -> bool:
            nonlocal seen
            seen = self.scrollback()
            return wanted in seen if isinstance(wanted, str) else wanted(seen)

        eventually(is_there, lambda: f"{wanted!r} did not come:\n{seen}", timeout_s=timeout_s)
        return seen

    def record(self, file: Path) -> None:
        """Keeps every byte that is written to the terminal from here on."""
        self._tmux("pipe-pane", "-O", f"cat > {shlex.quote(str(file))}")

    def close(self) -> None:
        """Ends the terminal, and waits for what ran in it, which may still write its last."""
        asked = ["display-message", "-p", "#{pane_pid}"]
        shell = subprocess.run(
            ["tmux", "-S", self._socket, *asked], capture_output=True, text=True, check=False
        ).stdout.strip()
        if not shell:  # it is closed already; zombies of others are no shells
            return
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)
        eventually(lambda: shell not in _terminals(), lambda: "what ran in the terminal did not end")

    def _tmux(self, *arguments: str) -> str:
        ran = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture
def tmux(machine: Machine, tmp_path: Path) -> Iterator[Tmux]:
    opened = Tmux(machine, tmp_path)
    yield opened
    opened.close()

"""What a terminal answers is told apart from what a person types, and it is left as it was found."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from mainspring.chat.terminal_input import TerminalParser
from tests.chat.conftest import FREE, Tmux
from tests.cli.conftest import Machine

BLACK, WHITE = "\x1b]11;rgb:0000/0000/0000\x1b\\", "\x1b]11;rgb:ffff/ffff/eeee\x07"
PUSH, POP = b"\x1b[>1u", b"\x1b[<u"


class Keyboard:
    """A parser, and what came of it."""

    def __init__(self) -> None:
        self.keys: list[KeyPress] = []
        self.heard: list[str] = []
        self.parser = TerminalParser(self.keys.append, self.heard.append, lambda: self.heard.append("keys"))

    def read(self, *pieces: str) -> list[str]:
        for piece in pieces:
            self.parser.feed(piece)
        self.parser.flush()
        return [getattr(press.key, "value", press.key) for press in self.keys]


def test_an_answer_in_any_two_pieces_takes_nothing_that_was_typed() -> None:
    stream = f"a\x1b[A{WHITE}b\x1b[?0uc"
    for at in range(len(stream) + 1):
        keyboard = Keyboard()
        assert keyboard.read(stream[:at], stream[at:]) == ["a", "up", "b", "c"], at
        assert keyboard.heard == ["light", "keys"]
    assert Keyboard().read("\x1b") == ["escape"]
    assert Keyboard().read("\x1b]", "11") == ["escape", "]", "1", "1"]


def test_what_is_pasted_is_no_answer() -> None:
    keyboard = Keyboard()
    keyboard.read(f"{BLACK}\x1b[200~x{WHITE}", "y\x1b[201~", "z")
    assert keyboard.heard == ["dark"]
    assert [press.data for press in keyboard.keys] == [f"x{WHITE}y", "z"]


@pytest.mark.parametrize(
    ("reported", "keys"),
    [
        ("\x1b[13;2u", [Keys.ControlJ.value]),
        ("\x1b[27;2;13~", [Keys.ControlJ.value]),
        ("\x1b[13;3u", ["escape", Keys.ControlM.value]),
        ("\x1b[13;131u", ["escape", Keys.ControlM.value]),  # with num lock
        ("\x1b[27u", ["escape"]),
        ("\x1b[99;5u", ["c-c"]),
        ("\x1b[99;69u", ["c-c"]),  # with caps lock
        ("\x1b[98;3u", ["escape", "b"]),
        ("\x1b[98;4u", ["escape", "B"]),
        ("\x1b[47;5u", ["c-_"]),
        ("\x1b[9;2u", ["s-tab"]),
        ("\x1b[127;3u", ["escape", "c-h"]),
        ("\x1b[1;129A", ["up"]),
        ("\x1b[1;133C", ["c-right"]),
        ("\x1b[3;129~", ["delete"]),
        ("\x1b[57441;2u", ["<ignore>"]),  # a shift key alone
    ],
)
def test_keys_are_known_in_every_form(reported: str, keys: list[str]) -> None:
    assert Keyboard().read(reported) == keys


class KittyShell:
    """A terminal that knows the keyboard protocol of kitty and has a dark background, with a shell in it."""

    def __init__(self, machine: Machine) -> None:
        self._here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen, self._answered = b"", 0
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"], stdin=there, stdout=there, stderr=there,
            cwd=machine.workspace, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads in it
            env=machine.environment(TERM="xterm-kitty", PS1="shell$ ", LANG="C.UTF-8"),
        )  # fmt: skip
        os.close(there)

    def type(self, text: str) -> None:
        os.write(self._here, text.encode())

    def until(self, is_there: Callable[[bytes], bool]) -> None:
        deadline = time.monotonic() + 60
        while not is_there(self.seen):
            assert time.monotonic() < deadline, self.seen[-3000:]
            if select.select([self._here], [], [], 1)[0]:
                self.seen += os.read(self._here, 1 << 16)
                if self.seen.count(b"\x1b[?u") > self._answered:
                    self._answered += 1
                    self.type("\x1b[?0u" + BLACK)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._here)


@pytest.fixture
def kitty(machine: Machine) -> Iterator[KittyShell]:
    shell = KittyShell(machine)
    yield shell
    shell.close()


def open_chat(shell: KittyShell, machine: Machine) -> int:
    model = machine.serve({"text": "Two lines."})
    shell.type(f"{sys.executable} -m mainspring chat --model '{model}' {' '.join(FREE)}\n")
    shell.until(lambda seen: PUSH in seen and b"/help lists" in seen)
    children = Path(f"/proc/{shell.process.pid}/task/{shell.process.pid}/children").read_text().split()
    return int(children[0])


def test_keys_are_reported_from_start_to_end_and_not_while_suspended(
    kitty: KittyShell, machine: Machine
) -> None:
    open_chat(kitty, machine)
    kitty.type("one\x1b[13;2utwo\r")
    kitty.until(lambda seen: "■ done".encode() in seen)
    assert b"one\\ntwo" in machine.seen[-1].body
    kitty.type("\x1b[122;5u")  # Ctrl-Z, as such a terminal reports it
    kitty.until(lambda seen: seen.count(POP) == 1 and b"Stopped" in seen)
    kitty.type("fg\n")
    kitty.until(lambda seen: seen.count(PUSH) == 2)
    kitty.type("\x1b[100;5u")
    kitty.until(lambda seen: seen.count(POP) == 2 and seen.rstrip().endswith(b"shell$"))
    assert b"rgb:" not in kitty.seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_chat_that_is_ended_from_outside_leaves_the_terminal_as_it_was(
    kitty: KittyShell, machine: Machine, number: signal.Signals
) -> None:
    process = open_chat(kitty, machine)
    os.kill(process, number)
    kitty.until(lambda seen: seen.rstrip().endswith(b"shell$"))
    assert kitty.seen.count(PUSH) == kitty.seen.count(POP) == 1
    kitty.type("stty -a\n")
    kitty.until(lambda seen: b" icanon" in seen)


@pytest.mark.parametrize(("colour", "theme"), [("#fdf6e3", "light"), ("#002b36", "dark")])
def test_the_background_decides_the_theme(tmux: Tmux, colour: str, theme: str) -> None:
    tmux.style(f"bg={colour}")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Hello."}), *FREE)
    tmux.type("/theme", "Enter")
    tmux.until(f"Theme, now {theme} (3)")
    assert "rgb:" not in tmux.scrollback()

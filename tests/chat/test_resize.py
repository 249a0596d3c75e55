"""A terminal that changes its size while something is drawn on it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import termios

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import BufferControl

from mainspring.chat.output import FrameOutput
from mainspring.chat.resize import ResizingApplication
from tests.chat.conftest import FREE, Tmux

BEGIN = b"\x1b[?2026h"
WORDS = [f"w{number:03}" for number in range(100)]


def _set_width(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


async def _frame(terminal: int) -> bytes:
    """What is written to a terminal, until a frame with all lines is whole."""
    data = b""
    while not (b"prompt" in data and data.endswith(b"\x1b[?2026l")):
        data += await asyncio.to_thread(os.read, terminal, 65536)
    return data


def test_nothing_is_drawn_between_another_width_and_the_moment_when_it_stays() -> None:
    terminal, slave = pty.openpty()
    _set_width(terminal, 80)
    line = Buffer(document=Document("x" * 70 + "\n" + "y" * 70 + "\nprompt"))

    async def drawn(app: ResizingApplication) -> bytes:
        running = asyncio.create_task(app.run_async(handle_sigint=False))
        await _frame(terminal)
        for columns in (40, 60, 30):  # as when a border is dragged: the terminal wraps at once
            _set_width(terminal, columns)
            app._redraw()  # a key, or a frame of ours, before the terminal has told
            app._on_resize()
        frame = await _frame(terminal)
        app.exit()
        await running
        return frame

    with create_pipe_input() as keys, os.fdopen(slave, "w") as stdout:
        output = FrameOutput(stdout, term="xterm", colours=None)
        layout = Layout(Window(BufferControl(line)))
        frame = asyncio.run(drawn(ResizingApplication(output, layout=layout, input=keys)))
    os.close(terminal)
    assert frame.count(BEGIN) == 1
    assert frame.startswith(BEGIN + b"\x1b[4A"), "both lines take three lines in 30 columns, so four more"
    assert frame.count(b"prompt") == 1


def test_dragging_a_border_while_an_answer_is_written_leaves_nothing_behind(tmux: Tmux) -> None:
    answer = {"text": " ".join(WORDS) + "\n\nthe end", "chunk_size": 5, "delay_s": 0.02}
    tmux.type("seq 30", "Enter")
    tmux.until("\n30\n")
    tmux.open("chat", "--model", tmux.machine.serve(answer), *FREE)
    tmux.type("go", "Enter")
    tmux.until("w010")
    for columns in (70, 60, 50, 45, 40, 50, 70, 90, 120, 60, 50, 40, 60, 80):
        tmux.resize(columns)
    seen = tmux.until(lambda seen: "■ done" in seen and "answering" not in seen)
    assert [word for word in seen.split() if word in WORDS] == WORDS
    assert seen.count("the end") == 1
    assert "› go" in seen
    assert "/help lists" in seen

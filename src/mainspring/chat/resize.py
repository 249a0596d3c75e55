"""An application whose terminal may change its size at any moment.

A terminal that becomes narrower wraps anew what is on it, and only then tells us: tmux up to a quarter of a
second later, when it has told of another size just before. What is drawn in between goes to the wrong lines.
So a size is looked at once for each frame and holds for all of it, and after another width nothing is drawn
until the width stays: then what was drawn last is still there, and it is known how it was wrapped.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.layout.screen import Screen

from mainspring.chat.output import FrameOutput

STAYS_S = 0.3


class ResizingApplication(Application[None]):
    """Draws on `frames`, whose size is the one of the last frame."""

    def __init__(self, frames: FrameOutput, **options: Any) -> None:
        super().__init__(output=frames, **options)
        self._frames = frames
        self._settling: asyncio.TimerHandle | None = None
        self._told: Size | None = None

    def may_draw(self) -> bool:
        """Whether lines are where they were drawn; when they are not, they are drawn anew soon."""
        frames, now = self._frames, self._frames.look_at_size()
        if self._settling is None and now.columns == frames.get_size().columns:
            frames.take_size(now)
        elif self.renderer.last_rendered_screen is None:
            self._settle()  # nothing of ours is there to be wrapped
        elif now != self._told:
            self._cancel()
            self._told = now
            self._settling = asyncio.get_running_loop().call_later(STAYS_S, self._draw_anew)
        return self._settling is None

    def settle(self) -> None:
        """The lines are erased next, so where they begin must be known now."""
        if not self.may_draw():
            self._settle()

    def _draw_anew(self) -> None:
        if self._frames.look_at_size() != self._told:
            self.may_draw()
            return
        with self._frames.frame():
            self._settle()
            self.renderer.erase(leave_alternate_screen=False)
            self._redraw()

    def _settle(self) -> None:
        """Goes to where the lines begin that the terminal has wrapped anew."""
        drawn, cursor, frames = self.renderer.last_rendered_screen, self.renderer._cursor_pos, self._frames
        self._cancel()
        frames.take_size(frames.look_at_size())
        if drawn is not None:
            columns = frames.get_size().columns
            more = [max(_used(drawn, row) - 1, 0) // columns for row in range(drawn.height)]
            up = sum(more[: cursor.y]) + cursor.x // columns
            frames.resized(up, rows=drawn.height + max(sum(more), up))

    def _cancel(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        self._settling = self._told = None

    def _on_resize(self) -> None:
        if self.may_draw():
            super()._on_resize()

    def _redraw(self, render_as_done: bool = False) -> None:  # noqa: FBT001, FBT002
        if render_as_done:
            self.settle()
        if render_as_done or self.may_draw():
            super()._redraw(render_as_done)


def _used(drawn: Screen, row: int) -> int:
    """How many cells of a drawn line are written."""
    cells = drawn.data_buffer[row]
    return max((at + cell.width for at, cell in cells.items() if cell.char.strip()), default=0)

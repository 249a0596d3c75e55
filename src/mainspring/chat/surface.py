"""What a chat is shown on, and what it hears from there: the two sides of every surface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from mainspring.chat.palette import Palette, Theme
from mainspring.errors import MainspringError


class Choice(msgspec.Struct, frozen=True):
    """One of several things to pick: what is shown, and more about it while it is looked at."""

    value: str
    title: str
    preview: str = ""
    is_now: bool = False
    """Whether it is what holds already, so that choosing begins there."""


class Controls(Protocol):
    """What a person does, as the surface tells it. Nothing here waits."""

    def enter(self, text: str, *, is_queued: bool = False) -> None:
        """A line was entered; queued ones wait for the end of the turn."""
        ...

    def stop(self) -> bool:
        """Stop what runs; False when nothing does."""
        ...

    def quit(self) -> None: ...

    def hang_up(self) -> None:
        """The terminal is gone."""
        ...

    def go_back(self) -> None:
        """Choose where to go back to."""
        ...

    def take_queued(self) -> str | None:
        """Takes the last queued line back, to be edited or dropped."""
        ...

    def answer_key(self, key: str) -> str | None:
        """A key while a question is open: None when it is none of its choices, else what the input line
        begins with from here on, or an empty text when the answer is given."""
        ...

    def leave_answer(self) -> bool:
        """Back from an answer that was begun to the choices; False when none was."""
        ...

    def say_error(self, error: MainspringError) -> None: ...

    def recolour(self, theme: Theme) -> None:
        """Colours for such a terminal from here on."""
        ...

    async def settle(self) -> None:
        """Returns when all that was entered is done, at the end of the input."""
        ...

    async def rest(self) -> None:
        """Returns when the next line of a pipe is wanted: all before it is done, or something is asked."""
        ...

    @property
    def is_asking(self) -> bool:
        """Whether a question is open that single keys answer."""
        ...

    @property
    def is_busy(self) -> bool: ...

    @property
    def prompt(self) -> str:
        """What stands before the input line."""
        ...

    def live(self, columns: int) -> Sequence[str]: ...

    def bar(self, columns: int) -> str: ...


class Surface(Protocol):
    """Where text goes. What is written stays; everything else is drawn again and again."""

    palette: Palette
    takes_lines: bool
    """Whether a person can only enter whole lines here, no keys."""

    @property
    def is_lent(self) -> bool:
        """Whether another program has the terminal: an editor, a pager."""
        ...

    @property
    def columns(self) -> int: ...

    def write(self, text: str) -> None:
        """Adds finished lines to the scrollback."""
        ...

    def set_input(self, text: str) -> None:
        """Puts a text into the input line, to be edited."""
        ...

    def take_input(self) -> str:
        """What stands in the input line, which is empty then."""
        ...

    def give_back(self, text: str) -> None:
        """Puts a text before what stands in the input line."""
        ...

    def copy(self, text: str) -> None:
        """Asks the terminal to put a text into its clipboard."""
        ...

    def complete_again(self) -> None:
        """There is more to complete with than when the person typed."""
        ...

    def refresh(self) -> None:
        """The live lines or the bar have changed."""
        ...

    async def show_pages(self, text: str) -> None:
        """Shows a long text in a pager."""
        ...

    async def pick(self, title: str, choices: Sequence[Choice]) -> str | None:
        """Lets a person choose one; None when they do not."""
        ...

    async def run(self) -> None:
        """Shows the chat and hears the person until `close`, or the end of the input."""
        ...

    def close(self) -> None: ...

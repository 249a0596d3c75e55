"""What a person enters: a message, or a slash command from the table."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from mainspring.chat.palette import LEGEND
from mainspring.chat.questions import OpenQuestions
from mainspring.chat.seat import Seat
from mainspring.chat.surface import Surface
from mainspring.cli.ask import question_text
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain
from mainspring.session.session import Session
from mainspring.settings import Config


class Sayer(Protocol):
    """What commands ask of the chat that they belong to."""

    questions: OpenQuestions

    def quit(self) -> None: ...


class Desk(msgspec.Struct, frozen=True):
    """What a command works with."""

    config: Config
    session: Session
    surface: Surface
    seat: Seat
    chat: Sayer


class SlashCommand(msgspec.Struct, frozen=True):
    """`usage` are its arguments as people read them."""

    run: Callable[[Desk, str], Awaitable[None]]
    help: str
    usage: str = ""


async def run_line(desk: Desk, line: str) -> None:
    """Does what a line says."""
    if not line.startswith("/"):
        await desk.session.say(line)
        return
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(f"There is no command /{name}.", remedy="/help lists them.")
    await command.run(desk, rest.strip())


async def _help(desk: Desk, _: str) -> None:
    paint = desk.surface.palette.paint
    width = max(len(f"/{name} {each.usage}") for name, each in COMMANDS.items())
    rows = [f"  {f'/{name} {each.usage}':<{width}}  {each.help}" for name, each in COMMANDS.items()]
    legend = [f"  {marks:<5}  {meaning}" for marks, meaning in LEGEND]
    lines = [paint("Commands", "bold"), *rows, "", paint("Marks", "bold"), *legend]
    desk.surface.write("\n".join(["", *lines]))


async def _view(desk: Desk, _: str) -> None:
    asked = desk.chat.questions.waiting
    texts = [question_text(each, number=number, limit=sys.maxsize) for number, each in enumerate(asked, 1)]
    if not texts:
        raise UsageError("No question is open.")
    await desk.surface.show_pages(plain("\n".join(texts)))


async def _quit(desk: Desk, _: str) -> None:
    desk.chat.quit()


COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand(_help, "Commands, keys and marks."),
    "view": SlashCommand(_view, "Everything about the open questions."),
    "quit": SlashCommand(_quit, "Leave the chat; the session is kept."),
}

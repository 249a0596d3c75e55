"""Slash commands: what a person at a client can ask of a session beside its agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, get_args

from acp import helpers, schema

from mainspring.app.operations.context import window_use
from mainspring.app.operations.cost import costs
from mainspring.documents.figures import money
from mainspring.documents.lines import as_text
from mainspring.errors import UsageError
from mainspring.events import Extent
from mainspring.session.session import Session
from mainspring.settings import Config

_EXTENTS = get_args(Extent)


async def _compact(session: Session, config: Config, argument: str) -> str:  # noqa: ARG001
    return as_text(await session.compact())


async def _expand(session: Session, config: Config, argument: str) -> str:  # noqa: ARG001
    await session.expand()
    return "The history is whole again."


async def _undo(session: Session, config: Config, argument: str) -> str:  # noqa: ARG001
    found = next((each for each in _EXTENTS if each == (argument or "both")), None)
    if found is None:
        raise UsageError(f"{argument!r} cannot be undone.", remedy=f"Use one of {', '.join(_EXTENTS)}.")
    said = await session.undo(found)
    return f"Taken back ({found}): {said.text}"


async def _context(session: Session, config: Config, argument: str) -> str:  # noqa: ARG001
    filled = await window_use(config, session.id)
    of_window = f" of {filled.window:,}" if filled.window else ""
    parts = [f"- {part.part}: {part.tokens:,}" for part in filled.parts]
    return "\n".join([f"About {filled.tokens:,}{of_window} tokens:", *parts])


async def _cost(session: Session, config: Config, argument: str) -> str:  # noqa: ARG001
    spent = await costs(config, session=session.id)
    rows = [
        f"- {row.key}: {money(row.spent.usd)}, {row.spent.input_tokens + row.spent.output_tokens:,} tokens"
        for row in spent.rows
    ]
    return "\n".join(rows) or "Nothing was spent yet."


class _Command(NamedTuple):
    about: str
    run: Callable[[Session, Config, str], Awaitable[str]]
    hint: str = ""


_COMMANDS: dict[str, _Command] = {
    "compact": _Command("Shorten the history; nothing is lost", _compact),
    "expand": _Command("Undo the last compaction", _expand),
    "undo": _Command("Undo the last turn: both, conversation or files", _undo, "both | conversation | files"),
    "context": _Command("Show what fills the context window", _context),
    "cost": _Command("Show what this session cost", _cost),
}


def available_commands() -> schema.AvailableCommandsUpdate:
    return helpers.update_available_commands(
        schema.AvailableCommand(
            name=name,
            description=command.about,
            input=schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=command.hint))
            if command.hint
            else None,
        )
        for name, command in _COMMANDS.items()
    )


def is_command(text: str) -> bool:
    """Whether a message is one of ours; any other that begins with a slash is for the agent."""
    return text.startswith("/") and text[1:].partition(" ")[0].strip() in _COMMANDS


async def run_slash_command(text: str, session: Session, config: Config) -> str:
    """What came of it, for the person."""
    name, _, argument = text[1:].strip().partition(" ")
    return await _COMMANDS[name].run(session, config, argument.strip())

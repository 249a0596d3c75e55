"""The engines that can be named, and what a name stands for here."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from mainspring.engines import acp, claude, codex, gemini, opencode, plain
from mainspring.engines.builtin import NAME as BUILTIN
from mainspring.engines.facts import EngineDescription
from mainspring.engines.outside import Outside, OutsideModel, remedy
from mainspring.engines.runner import OutsideEngine, follow_lines
from mainspring.engines.settings import EngineSettings
from mainspring.errors import InvalidValue, UsageError
from mainspring.models import Price
from mainspring.sandbox.environment import DEFAULT_PATH
from mainspring.turns.runtime import Engine

COMMANDS = {facts.name: facts for facts in (codex.FACTS, claude.FACTS, gemini.FACTS, opencode.FACTS)}
"""The agents that are known by name."""

_PROTOCOLS = {"acp": acp.FACTS, "exec": plain.FACTS}


def build_engine(outside: Outside) -> Engine:
    return OutsideEngine(outside, acp.follow if outside.facts.name == acp.FACTS.name else follow_lines)


def find_engine(
    name: str,
    settings: Mapping[str, EngineSettings],
    environment: Mapping[str, str],
    *,
    model: str = "",
    price: Callable[[EngineDescription, str], Price | None] = lambda _facts, _model: None,
) -> Outside:
    """The outside agent of a name; raises `UsageError` when there is none, or its program is not here."""
    facts, command, own = described(name, settings)
    if facts.name == acp.FACTS.name:
        acp.check_installed()
    program = find_program(command[0], environment)
    if program is None:
        raise UsageError(
            f"The engine {name} needs the program {command[0]}, which is not installed.",
            remedy=remedy(name, facts),
        )
    chosen = model or own.model
    return Outside(
        name=name,
        facts=facts,
        command=(program, *command[1:]),
        settings=own,
        environment=environment,
        model=OutsideModel(name, chosen, price(facts, chosen) if chosen else None),
        price_of=partial(price, facts),
    )


def described(
    name: str, settings: Mapping[str, EngineSettings]
) -> tuple[EngineDescription, tuple[str, ...], EngineSettings]:
    """What is known about an engine, its command line, and what the user says about it."""
    own = settings.get(name, EngineSettings())
    if facts := COMMANDS.get(name):
        return facts, own.command or (facts.program,), own
    protocol, colon, line = name.partition(":")
    if colon and protocol in _PROTOCOLS:
        command = _words(name, line)
        known = COMMANDS.get(Path(command[0]).name)
        if protocol == acp.FACTS.name and known:
            return (
                _over_acp(known),
                command,
                settings.get(protocol, settings.get(known.name, EngineSettings())),
            )
        return _PROTOCOLS[protocol], command, settings.get(protocol, EngineSettings())
    if name in settings and own.command and own.protocol:
        return _PROTOCOLS[own.protocol], own.command, own
    if name in settings:
        raise UsageError(
            f"The engine {name} has no command or no protocol.",
            remedy=f'Set command = ["..."] and protocol = "acp" or "exec" in [engines.{name}].',
        )
    names = ", ".join((BUILTIN, *COMMANDS, *(each for each in settings if each not in COMMANDS)))
    raise InvalidValue(f"There is no engine {name!r}.", remedy=f"Use {names}, acp:COMMAND or exec:COMMAND.")


def _over_acp(known: EngineDescription) -> EngineDescription:
    """An agent that is known by name and speaks ACP: its keys, its state and its provider are the same."""
    return msgspec.structs.replace(
        acp.FACTS,
        title=known.title,
        install=known.install,
        state=known.state,
        variables=known.variables,
        confined_variables=known.confined_variables,
        provider=known.provider,
    )


def find_program(name: str, environment: Mapping[str, str]) -> str | None:
    """The whole path of a program, or None when it is not here."""
    if "/" in name:
        path = Path(name).expanduser().absolute()
        return str(path) if path.is_file() else None
    found = shutil.which(name, path=environment.get("PATH") or DEFAULT_PATH)
    return str(Path(found).absolute()) if found else None


def _words(name: str, line: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"The command of {name} cannot be read: {error}.") from error
    if not words:
        raise UsageError(f"The engine {name} names no command.", remedy="Write one behind the colon.")
    return words

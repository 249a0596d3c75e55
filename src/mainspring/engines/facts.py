"""What there is to know about an outside agent before it is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mainspring.approvals import Mode
from mainspring.engines.messages import LineReader


class EngineTask(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of an agent is to do, as far as its command line says it. `is_confined` says that our
    sandbox holds it, so that it needs none of its own."""

    workspace: Path
    mode: Mode
    is_confined: bool
    model: str = ""
    conversation: str = ""
    effort: str = ""
    left_usd: float | None = None


def no_arguments(task: EngineTask) -> tuple[str, ...]:
    del task
    return ()


class EngineFolders(msgspec.Struct, frozen=True):
    """Where an agent keeps its state: folders, and files beside them."""

    folders: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()


def nowhere(home: Path, environment: Mapping[str, str]) -> EngineFolders:
    del home, environment
    return EngineFolders()


class EngineDescription(msgspec.Struct, frozen=True, kw_only=True):
    """`variables` are those of the environment that it may see. `provider` is whose models it uses by their
    plain names, for their price. One that `takes_effort` is told how hard to think. `needs_end` says that a
    run without its last line was broken off, and `counts_conversation` that it reports what its whole
    conversation used, with earlier turns."""

    name: str
    title: str
    program: str = ""
    install: str = ""
    arguments: Callable[[EngineTask], tuple[str, ...]] = no_arguments
    reader: Callable[[], LineReader]
    state: Callable[[Path, Mapping[str, str]], EngineFolders] = nowhere
    variables: tuple[str, ...] = ()
    confined_variables: Mapping[str, str] = {}
    provider: str = ""
    reports_cost: bool = False
    takes_effort: bool = False
    needs_end: bool = False
    counts_conversation: bool = False
    has_version: bool = True

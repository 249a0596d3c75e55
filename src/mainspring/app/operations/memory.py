"""What is remembered about the project that a folder belongs to."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.app.prompt import memory_of
from mainspring.settings import Config
from mainspring.workspace.memory import ProjectMemory, Remark


class RememberedLines(msgspec.Struct, frozen=True):
    path: Path
    remarks: tuple[Remark, ...]


def load_memory(config: Config, folder: Path) -> RememberedLines:
    memory = _memory(config, folder)
    return RememberedLines(memory.path, tuple(memory.load()))


def remember(config: Config, folder: Path, text: str) -> tuple[Remark, ...]:
    """Adds a line; gives those that were forgotten to make room."""
    return tuple(_memory(config, folder).add(text, "user"))


def forget(config: Config, folder: Path, number: int) -> Remark:
    """Takes out the line of this number, counted from 1, and gives it."""
    return _memory(config, folder).forget(number)


def _memory(config: Config, folder: Path) -> ProjectMemory:
    return memory_of(folder.expanduser().resolve(), config)

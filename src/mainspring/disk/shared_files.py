"""Small files that several processes share: on one machine in a folder, on many in their database.

A file has a name of words with / between them. It is replaced whole, so nobody ever reads half of one, and of
several who rename or remove it one is told that it did. What is shared so is read by whoever has to decide
about it now, so the port is not async; only looking whether there is something may be done again and again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from mainspring.disk.files import locked, make_folder, write_private

NamedFiles = Mapping[str, bytes]
"""Files to make, by their names."""
NO_FILES: NamedFiles = {}


class SharedFiles(Protocol):
    """The files below one name. Every operation is durable when it returns."""

    def shown(self, name: str) -> str:
        """Where a file is, for people."""
        ...

    def names(self, folder: str) -> list[str]:
        """The files in a folder, by their last word, in order."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a file; None when there is none."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Makes or replaces a file."""
        ...

    def change(self, name: str, edit: Callable[[bytes | None], bytes | None]) -> None:
        """Replaces a file by what `edit` makes of it, or removes it; nobody else changes it meanwhile. `edit`
        may be called again when a connection was lost, with what the file is by then."""
        ...

    def rename(self, name: str, to: str) -> bool:
        """Gives a file another name, in place of one that has it; False when it is not there any more."""
        ...

    def remove(self, name: str) -> bool:
        """Removes a file; False when it is not there any more."""
        ...

    async def is_filled(self, folder: str) -> bool:
        """Whether there may be a file in a folder: a hint that costs little, for who looks again and again.
        One that cannot be had now is False."""
        ...


class LocalFiles:
    """The files below a folder of this machine, readable by their owner only."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def shown(self, name: str) -> str:
        return str(self._root / name)

    def names(self, folder: str) -> list[str]:
        try:
            # Asked between any two steps of a turn: a Path takes as long as the question.
            return sorted(name for name in os.listdir(f"{self._root}/{folder}") if name[0] != ".")
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes | None:
        try:
            with open(f"{self._root}/{name}", "rb") as file:  # noqa: PTH123 - as in `names`
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        path = self._root / name
        make_folder(path.parent)
        write_private(path, content)

    def change(self, name: str, edit: Callable[[bytes | None], bytes | None]) -> None:
        path = self._root / name
        with locked(path):
            before = self.read(name)
            after = edit(before)
            if after is None:
                path.unlink(missing_ok=True)
            elif after != before:
                write_private(path, after)

    def rename(self, name: str, to: str) -> bool:
        try:
            (self._root / name).rename(self._root / to)
        except FileNotFoundError:
            return False
        return True

    def remove(self, name: str) -> bool:
        try:
            (self._root / name).unlink()
        except FileNotFoundError:
            return False
        return True

    async def is_filled(self, folder: str) -> bool:
        return bool(self.names(folder))

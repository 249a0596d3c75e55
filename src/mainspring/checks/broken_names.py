"""Names that a file of the project imports from another one that has no such name: because a change renamed
or removed it, perhaps in the other file, or because it was never there. Files are read, nothing is run.

Only what a change of this session broke is told: the same imports are looked for as all files were before it.
A name that cannot be known counts as there.
"""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from mainspring.checks import MAX_BYTES, NotChecked
from mainspring.checks.imported_names import (
    PYTHON,
    SCRIPTS,
    ImportedNames,
    imports_of,
    python_names,
    script_names,
)
from mainspring.errors import PathRefused
from mainspring.events import CheckFinding
from mainspring.sandbox.files import Files
from mainspring.tools.walk import walked

_MAX_FILES = 20_000
_LIMIT_S = 2.0
Outline = Callable[[str, bytes], Awaitable[Mapping[str, Any]]]
"""What a script defines and exports, by its path and content; raises `NotChecked`."""


class BrokenNames:
    """Of one session. `first` is what changed files were when it began; None: they were not there."""

    name = "names"

    def __init__(self, files: Files, outline: Outline) -> None:
        self._files, self._outline = files, outline
        self.first: dict[str, bytes | None] = {}

    @staticmethod
    def takes(path: str) -> bool:
        return path.endswith((*PYTHON, *SCRIPTS)) and not path.endswith(".d.ts")

    async def broken(
        self, changed: Sequence[str], standing: AbstractSet[str]
    ) -> dict[str, list[CheckFinding]]:
        """What is broken in these files, in those that import from them, and in those in which something was
        broken before; raises `NotChecked`."""
        importers = [await self._importers(path) for path in changed]
        paths = {*changed, *standing}.union(*importers)
        return {path: await self._new(path) for path in sorted(paths)}

    async def _new(self, path: str) -> list[CheckFinding]:
        now = self._now(path)
        missing = await self._missing(path, now, self._now) if now is not None else {}
        if not missing:
            return []
        first = self._before(path)
        known: AbstractSet[str] = (
            (await self._missing(path, first, self._before)).keys() if first is not None else set()
        )
        return [
            CheckFinding(by=self.name, rule="missing", line=line, message=message)
            for message, line in missing.items()
            if message not in known
        ]

    async def _missing(
        self, path: str, content: bytes, read: Callable[[str], bytes | None]
    ) -> dict[str, int]:
        """What a file imports in vain, with the lines."""
        found: dict[str, int] = {}
        for each in await asyncio.to_thread(imports_of, path, content.decode("utf-8", "replace")):
            target = next((file for file in each.files if read(file) is not None), "")
            if each.module and (not target or await self._is_other(each, read)):
                continue
            if target:
                names = await self._names(target, read(target) or b"")
                missing = [] if names is None else [name for name in each.names if name not in names]
                for name in missing:
                    if not self._is_file(each, name, read):
                        how = (
                            f"{each.module}.{name}` is used of"
                            if each.module
                            else f"{name}` is imported from"
                        )
                        found.setdefault(f"`{how} {target}, which has no such name", each.line)
            elif gone := self._gone(each):
                found.setdefault(f"{gone} is imported, and is gone", each.line)
        return found

    async def _is_other(self, used: ImportedNames, read: Callable[[str], bytes | None]) -> bool:
        """Whether what looks like a module of a package may be a name of that package."""
        holder = next((file for file in used.holders if read(file) is not None), "")
        names = await self._names(holder, read(holder) or b"") if holder else frozenset[str]()
        return names is None or used.module in names

    def _gone(self, imported: ImportedNames) -> str:
        """The file that was meant, if it was there when the session began and nothing else is meant now."""
        if any(self._is_folder(folder) for folder in imported.inside):
            return ""
        return next((file for file in imported.files if self.first.get(file) is not None), "")

    async def _names(self, path: str, content: bytes) -> frozenset[str] | None:
        text = content.decode("utf-8", "replace")
        if path.endswith(PYTHON):
            return await asyncio.to_thread(python_names, text)
        if path.endswith(".d.ts"):
            return None
        try:
            outline = await self._outline(path, content)
        except NotChecked:
            return None  # told by the syntax
        return script_names(text, [each[0] for each in outline["exports"]])

    async def _importers(self, path: str) -> set[str]:
        """The files that may import what a changed file does not have any more."""
        before, after = self.first.get(path), self._now(path)
        if before is None:
            return set()
        lost: AbstractSet[str] = set()
        if after is not None:
            had, has = [await self._names(path, content) for content in (before, after)]
            lost = had - has if had is not None and has is not None else set()
            if not lost:
                return set()
        return await asyncio.to_thread(lambda: set(self._naming(path, lost)))

    def _naming(self, path: str, lost: AbstractSet[str]) -> Iterator[str]:
        stem = posixpath.basename(path).partition(".")[0]
        stem = posixpath.basename(posixpath.dirname(path)) if stem in ("__init__", "index") else stem
        family = PYTHON if path.endswith(PYTHON) else SCRIPTS
        words = [name.encode() for name in lost if name != "default"]
        deadline = time.monotonic() + _LIMIT_S
        listing = walked(self._files, self._files.policy.workspace, lambda count: count > _MAX_FILES)
        for other in listing.paths:
            if time.monotonic() > deadline:
                raise NotChecked(f"looking for who imports {path} takes more than {_LIMIT_S:g} s")
            if other == path or not (self.takes(other) and other.endswith(family)):
                continue
            data = self._now(other) or b""
            if stem.encode() in data and (not words or any(word in data for word in words)):
                yield other

    def _is_file(self, imported: ImportedNames, name: str, read: Callable[[str], bytes | None]) -> bool:
        """Whether a name of a package is one of its modules, which may be compiled."""
        root = self._files.policy.workspace
        return any(
            read(f"{folder}/{name}.py") is not None
            or self._is_folder(f"{folder}/{name}")
            or any(not each.name.endswith(".py") for each in (root / folder).glob(f"{name}.*"))
            for folder in imported.inside
        )

    def _is_folder(self, folder: str) -> bool:
        return (self._files.policy.workspace / folder).is_dir()

    def _now(self, path: str) -> bytes | None:
        if not (self._files.policy.workspace / path).is_file():
            return None
        try:
            return self._files.read(path, max_bytes=MAX_BYTES).data
        except (OSError, PathRefused):
            return None  # it went away, or may not be seen

    def _before(self, path: str) -> bytes | None:
        return self.first[path] if path in self.first else self._now(path)

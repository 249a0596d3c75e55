"""Brings the index of a repository up to date: files that look as they did are not read, and those that hold
what they held are not parsed. Grammars and readers of documents run confined; a file that crashes one, or
takes too long, is kept with that reason and not tried again until it changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.errors import PathRefused
from mainspring.index import IndexedSymbol
from mainspring.index.passages import DOCUMENTS, TEXTS, doc_passages, text_passages
from mainspring.index.ranking import rank
from mainspring.index.store import FileStatus, IndexedFile, IndexStore, now_us, storable
from mainspring.sandbox.files import Files
from mainspring.tools import ToolFailed
from mainspring.tools.documents import kind_of
from mainspring.tools.text import decode, is_unicode
from mainspring.tools.walk import walked
from mainspring.workspace.tree import is_fresh

_MAX_BYTES = 1 << 20
_MAX_DOCUMENT = 32 << 20
_BATCH = 200

ReadSymbols = Callable[[str, bytes], Awaitable[Any]]
"""What a source file (path, content) defines, as `checks/code_symbols.py` says it; raises `NotIndexed`."""
DocumentText = Callable[[str, bytes, str], Awaitable[str]]
"""The text of a document (path, content, kind); raises `ToolFailed`."""


class NotIndexed(Exception):
    """Why nothing is known of a file, in words for a person. What `is_passing` has not to do with the file,
    which is looked at again the next time."""

    def __init__(self, why: str, *, is_passing: bool = False) -> None:
        super().__init__(why)
        self.is_passing = is_passing


class IndexChange(msgspec.Struct, frozen=True, kw_only=True):
    """What an update did; `is_busy` says that another process is at it, and nothing was done here. `left`
    files were not looked at because the time was over."""

    files: int = 0
    read: int = 0
    removed: int = 0
    left: int = 0
    is_busy: bool = False


class Updater:
    """`parsers` read at the same time, one file each; `is_code` tells by its name what they can read. No
    file is begun after `until_s` of the monotonic clock."""

    def __init__(
        self,
        root: Path,
        files: Files,
        store: IndexStore,
        parsers: Sequence[ReadSymbols],
        is_code: Callable[[str], bool],
        document_text: DocumentText,
        on_progress: Callable[[int, int], None] = lambda _done, _all: None,
        until_s: float = math.inf,
    ) -> None:
        self._root, self._files, self._store = root, files, store
        self._parsers, self._document_text, self._on_progress = parsers, document_text, on_progress
        self._is_code, self._until_s = is_code, until_s
        self._ready: list[IndexedFile] = []
        self._same: list[tuple[int, int, int, str]] = []
        self._read = self._done = 0

    async def update(self, *, has_ranks: bool = True) -> IndexChange:
        """All files of the repository."""
        listing = await asyncio.to_thread(walked, self._files, self._root)
        known = await asyncio.to_thread(self._store.known)
        todo = await asyncio.to_thread(lambda: list(_changed(self._root, listing.paths, known)))
        gone = known.keys() - set(listing.paths)
        await asyncio.to_thread(self._store.remove, sorted(gone))
        await self._take(todo, known)
        is_new, left = bool(self._read or gone), len(todo) - self._done
        is_ranked = not is_new and bool(self._store.about("is_ranked"))
        has_ranks = has_ranks and not left
        if has_ranks and not is_ranked:
            await asyncio.to_thread(self._rank)
        is_ranked = has_ranks or is_ranked
        await asyncio.to_thread(
            self._store.set_about, is_ranked=int(is_ranked), left=left, unnamed=listing.unnamed
        )
        if is_new or not self._store.about("updated_us"):
            await asyncio.to_thread(
                self._store.set_about, is_cut=int(listing.is_cut), root=str(self._root), updated_us=now_us()
            )
        return IndexChange(files=len(listing.paths), read=self._read, removed=len(gone), left=left)

    async def update_files(self, paths: Sequence[str]) -> IndexChange:
        """Only these, which are known or not; the ranks stay as they are."""
        paths = list(filter(is_unicode, paths))
        known = await asyncio.to_thread(self._store.known, paths)
        todo = list(_changed(self._root, paths, known))
        gone = known.keys() - {path for path in paths if _is_there(self._root / path)}
        await asyncio.to_thread(self._store.remove, sorted(gone))
        await self._take(todo, known)
        return IndexChange(files=len(paths), read=self._read, removed=len(gone))

    async def _take(self, todo: list[_Todo], known: dict[str, FileStatus]) -> None:
        waiting, count = iter(todo), len(todo)

        async def work(parser: ReadSymbols) -> None:
            for each in waiting:
                if time.monotonic() >= self._until_s:
                    return
                await self._look(each, known.get(each.path), parser)
                self._done += 1
                if len(self._ready) + len(self._same) >= _BATCH:
                    await self._flush()
                    self._on_progress(self._done, count)

        async with asyncio.TaskGroup() as group:
            for parser in self._parsers[: max(1, min(len(self._parsers), count))]:
                group.create_task(work(parser))
        await self._flush()
        if count == self._done:
            self._on_progress(count, count)

    async def _flush(self) -> None:
        ready, same, self._ready, self._same = self._ready, self._same, [], []
        if ready or same:
            await asyncio.to_thread(self._write, ready, same)

    def _write(self, ready: list[IndexedFile], same: list[tuple[int, int, int, str]]) -> None:
        self._store.put(ready)
        self._store.touch(same)

    async def _look(self, todo: _Todo, before: FileStatus | None, parser: ReadSymbols) -> None:
        kind = self._kind(todo.path)
        file = IndexedFile(
            path=todo.path, size=todo.size, mtime_ns=todo.mtime_ns, ctime_ns=todo.ctime_ns, kind=kind
        )
        most = _MAX_DOCUMENT if kind == "document" else _MAX_BYTES
        changes: dict[str, Any] = {}
        if kind and todo.size <= most:
            try:
                content = self._files.read(todo.path, max_bytes=most)
            except (OSError, PathRefused) as error:
                changes["problem"] = "it cannot be read" if isinstance(error, OSError) else "it is hidden"
            else:
                digest = hashlib.blake2b(content.data, digest_size=16).digest()
                if before and before.hash == digest:
                    self._same.append((todo.size, todo.mtime_ns, todo.ctime_ns, todo.path))
                    return
                changes = {"hash": digest, **await self._contents(todo.path, kind, content.data, parser)}
        elif before and not before.hash:  # nothing of it was read, and nothing would be now
            self._same.append((todo.size, todo.mtime_ns, todo.ctime_ns, todo.path))
            return
        elif kind:
            changes["problem"] = f"it has more than {most >> 20} MiB"
        self._read += 1
        self._ready.append(msgspec.structs.replace(file, **changes))

    async def _contents(self, path: str, kind: str, data: bytes, parser: ReadSymbols) -> dict[str, Any]:
        try:
            if kind == "code":
                return _code(path, await parser(path, data))
            if kind == "document":
                if not (found := kind_of(data)):
                    return {"problem": "its content is no PDF, DOCX, XLSX or PPTX"}
                text = await self._document_text(path, data, found)
                return {"passages": text_passages(path, storable(text))}
        except (NotIndexed, ToolFailed) as error:
            if isinstance(error, NotIndexed) and error.is_passing:
                return {"problem": str(error), "hash": b"", "ctime_ns": 0}
            why = str(error).removeprefix(f"{path} ").removeprefix("cannot be read: ")
            return {"problem": why.rstrip(".")}
        decoded = decode(data)
        return {"passages": text_passages(path, decoded.text)} if decoded else {"problem": "it is not text"}

    def _kind(self, path: str) -> str:
        lower = path.lower()
        if self._is_code(lower):
            return "code"
        return "document" if lower.endswith(DOCUMENTS) else "text" if lower.endswith(TEXTS) else ""

    def _rank(self) -> None:
        store = self._store
        store.set_ranks(*rank(store.defined(), store.code(), store.numbered_paths()))


class _Todo(msgspec.Struct, frozen=True, gc=False):
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int


def _changed(root: Path, paths: Sequence[str], known: dict[str, FileStatus]) -> Iterator[_Todo]:
    """The files that do not look as they did. One so fresh that a later change may not show is looked at
    again the next time."""
    folder = os.fspath(root)
    for path in paths:
        try:
            status = os.lstat(f"{folder}/{path}")
        except OSError:
            continue  # it went away
        old = known.get(path)
        now = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if old is None or (old.size, old.mtime_ns, old.ctime_ns) != now:
            ctime_ns = 0 if is_fresh(status.st_ctime_ns) else status.st_ctime_ns
            yield _Todo(path, status.st_size, status.st_mtime_ns, ctime_ns)


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _code(path: str, found: Any) -> dict[str, Any]:
    rows, names, imports, doc = found
    symbols = [
        IndexedSymbol(
            path=path,
            name=name,
            kind=kind,
            line=line,
            end_line=end_line,
            parent=parent,
            signature=signature,
            doc=told,
        )
        for name, kind, line, end_line, parent, signature, told in rows
    ]
    passages = doc_passages(path, doc, symbols)
    return {"symbols": symbols, "names": names, "imports": imports, "passages": passages}

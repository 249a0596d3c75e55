"""The time machine of a workspace: what changed while a call ran, with the contents before and after.

An arbitrary command names no files, so every covered content is safe before it runs: noted when git holds
it, else copied into a cache (`contents.py`), or kept in memory alone when it holds secrets. Hard links would
be free and useless, as most programs write in place; reflinks do not exist on ext4. Measured on 50,000 files
of 2 KB: the first look 2 s, in a thread while the model answers; later ones 0.15 s of CPU. Only contents that
did change enter the journal. Not covered, and said so when their status shows a change: heavy folders, files
with names of secrets, large files, what no longer fits.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path

from mainspring.disk.scan import NEVER_NS, Scan, ScanProgress
from mainspring.events import Blob, FileChange, FilesChanged
from mainspring.secrets.vault import PLACEHOLDER
from mainspring.workspace import KeepAll
from mainspring.workspace.contents import MAX_BYTES, MEGABYTE, Contents
from mainspring.workspace.differences import batches, describe, is_change, is_uncovered, note, with_renames
from mainspring.workspace.git import Git
from mainspring.workspace.quiet import Quiet
from mainspring.workspace.stable_read import object_id, read_file, read_link, too_large
from mainspring.workspace.tree import NOT_TEXT, Difference, Tree, TreeEntry, is_fresh, is_text

MAX_FILE_BYTES = 10_000_000
MAX_CHANGES = 20_000
_PATIENCE_S = 15.0
_HOLDS_SECRETS = "files of that name hold secrets"
_MANY = 500
_PRIVATE_BYTES = 32_000_000
_LONG_LOOK_S = 0.02
_LATER = "there was no time yet to keep it"


class Snapshots:
    """Looks after `root` and caches in `folder`. Looking happens in threads, one at a time. In the cache a
    secret in a file's name is hidden by `hide`, which `expand` undoes."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        *,
        environment: Mapping[str, str],
        scan: Scan | None = None,
        left_out: tuple[Path, ...] = (),
        is_secret: Callable[[str], bool] = lambda _: False,
        holds_secrets: Callable[[bytes], bool] = lambda _: False,
        hide: Callable[[str], str] = str,
        expand: Callable[[str], str] = str,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._prefix = f"{root}/"
        self._folder = folder / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        self._git = Git(root, environment)
        self._is_secret = is_secret
        self._holds_secrets = holds_secrets
        self._hide, self._expand = hide, expand
        self._private: dict[str, bytes] = {}
        self._max_file_bytes = max_file_bytes
        self._max_bytes = max_bytes
        self._is_full_told = False
        self._turn = threading.Lock()
        self._is_closed = False
        self._scan = scan or Scan()
        self._awaited = 0
        self._tree = Tree(
            root,
            scan=self._scan,
            left_out=left_out,
            is_stopped=lambda: self._is_closed,
            on_progress=self._tell,
        )
        self._contents: Contents | None = None
        self._problem = ""
        self._objects: dict[str, str] = {}
        self._later: set[str] = set()
        self._running: dict[str, None] = {}
        self._beginning = asyncio.Lock()
        self._began_ns = NEVER_NS
        self._look_s = 0.0
        self._can_look_early = True
        self._early: asyncio.Future[Quiet] | None = None
        self._found: dict[str, Difference] = {}

    async def prepare(self) -> None:
        await asyncio.to_thread(self._look)

    def expect(self) -> None:
        is_long = self._look_s > _LONG_LOOK_S
        if is_long and self._can_look_early and self._early is None and not self._running:
            self._early = asyncio.get_running_loop().run_in_executor(None, self._look_early)

    async def begin(self, call: str) -> None:
        async with self._beginning:  # a look for one call would take away what the first one changed by then
            if not self._running and not await self._was_looked_at_early():
                await self._taken()  # what others changed is none of this call's doing
            # Folders that the sandbox reads after the command are not read again; with several calls at work,
            # another may have changed them since.
            self._began_ns = NEVER_NS if self._running else time.time_ns()
            self._running[call] = None

    async def end(
        self, calls: Sequence[str], keep: KeepAll, *, is_certain: bool = True
    ) -> FilesChanged | None:
        during = tuple(dict.fromkeys((*self._running, *calls)))
        for call in calls:
            self._running.pop(call, None)
        # What is found is in the cache with the next look: by then the change is on record.
        found = await self._taken(since_ns=self._began_ns, saves=False)
        taken = [item for item in found if is_change(item)]
        notes = sorted(note(item) for item in taken if is_uncovered(item))
        changes = sorted((item for item in taken if not is_uncovered(item)), key=lambda item: item.path)
        if len(changes) > MAX_CHANGES:
            notes.append(f"{len(changes) - MAX_CHANGES} more files, too many for one call")
            changes = changes[:MAX_CHANGES]
        if self._problem:
            notes.append(f"everything ({self._problem})")
        if self._contents and self._contents.is_full and not self._is_full_told:
            self._is_full_told = True
            notes.append(
                f"new contents from here on (the {self._max_bytes // MEGABYTE} MB for them are used up:"
                " `mainspring clean` frees them, `contents_mb` in `[retention]` allows more)"
            )
        blobs = await self._keep(changes, keep)
        described = with_renames([describe(change, blobs) for change in changes], changes)
        if not described and not notes:
            return None
        return FilesChanged(
            calls=during, changes=tuple(described), not_covered=tuple(notes), is_certain=is_certain
        )

    def known_content(self, path: str, entry: TreeEntry) -> str:
        known = self._tree.get(path.removeprefix(self._prefix))
        return known.content if known and not known.is_fresh and known.has_status_of(entry) else ""

    async def all_but(self, known: Collection[str], keep: KeepAll) -> tuple[list[FileChange], list[str]]:
        await asyncio.to_thread(self._look)
        found = [Difference(path, None, entry) for path, entry in self._covered() if path not in known]
        notes = sorted(note(item) for item in found if is_uncovered(item) or (item.new and item.new.reason))
        files = sorted((item for item in found if item.new and item.new.content), key=lambda item: item.path)
        if len(files) > MAX_CHANGES:
            notes.append(f"{len(files) - MAX_CHANGES} more files")
            files = files[:MAX_CHANGES]
        blobs = await self._keep(files, keep)
        return [describe(item, blobs) for item in files], notes

    def _covered(self) -> list[tuple[str, TreeEntry]]:
        with self._turn:
            return [
                (path, copy(each)) for path, each in self._tree.entries() if each.reason or not each.is_folder
            ]

    async def content_id(self) -> str:
        return await asyncio.to_thread(self._content_id)

    def _content_id(self) -> str:
        digest = hashlib.sha256()
        with self._turn:
            for path, entry in sorted(self._tree.entries()):
                if not entry.is_folder:
                    held = entry.content or f"{entry.size}:{entry.mtime_ns}"
                    digest.update(os.fsencode(f"{path}\0{entry.mode & 0o111}\0{held}\0"))
        return digest.hexdigest()

    async def close(self) -> None:
        self._is_closed = True
        await self._was_looked_at_early()
        await asyncio.to_thread(self._close)

    async def _keep(self, changes: Iterable[Difference], keep: KeepAll) -> dict[str, Blob]:
        """Puts the contents before and after into the journal, a few at a time."""
        blobs: dict[str, Blob] = {}
        for batch in batches(changes):
            found = await asyncio.to_thread(self._fetch, batch)
            blobs |= zip(found, await keep(list(found.values())), strict=True)
        return blobs

    def _fetch(self, batch: Sequence[str]) -> dict[str, tuple[bytes, str]]:
        """Contents by their hash, each with its media type."""
        with self._turn:
            found = {sha256: self._private[sha256] for sha256 in batch if sha256 in self._private}
            if self._contents:
                found |= self._contents.get(batch, self._git.objects)
        return {sha256: (data, self._media_type(data)) for sha256, data in found.items()}

    def _media_type(self, data: bytes) -> str:
        """Text is recorded without its secrets; other bytes, unless they hold some, are kept as they are."""
        return "text/plain" if self._holds_secrets(data) or _is_text(data) else "application/octet-stream"

    async def _taken(self, *, since_ns: int = NEVER_NS, saves: bool = True) -> list[Difference]:
        self._awaited += 1
        try:
            return await asyncio.to_thread(self._take, since_ns=since_ns, saves=saves)
        finally:
            self._awaited -= 1

    def _look_early(self) -> Quiet:
        """The look before a call, while that is being written; it counts if nothing happens until then."""
        quiet = Quiet(self._prefix)
        if quiet.is_told:
            self._take(on_folder=quiet.add)
        self._can_look_early = quiet.is_told
        return quiet

    async def _was_looked_at_early(self) -> bool:
        if self._early is None:
            return False
        self._awaited += 1
        try:
            quiet = await asyncio.shield(self._early)
        finally:
            self._awaited -= 1
        self._early = None
        try:
            return quiet.has_held()
        finally:
            # The kernel takes its time to let go of many folders.
            asyncio.get_running_loop().run_in_executor(None, quiet.close)

    def _tell(self, progress: str) -> None:
        """Shows how far a look is that a call waits for; one in the background disturbs nobody."""
        if self._awaited:
            self._scan.on_progress(progress)

    def _take(
        self,
        *,
        since_ns: int = NEVER_NS,
        saves: bool = True,
        on_folder: Callable[[str], None] = lambda _: None,
    ) -> list[Difference]:
        """Looks, and gives everything that was found since the last time."""
        with self._turn:
            self._look_now(since_ns=since_ns, saves=saves, on_folder=on_folder)
            found, self._found = self._found, {}
            return list(found.values())

    def _look(self) -> None:
        with self._turn:
            self._look_now()

    def _look_now(
        self,
        *,
        since_ns: int = NEVER_NS,
        saves: bool = True,
        on_folder: Callable[[str], None] = lambda _: None,
    ) -> None:
        if self._is_closed:
            return
        started = time.monotonic()
        is_first = self._contents is None and self._open()
        differences = self._tree.look(since_ns=since_ns, on_folder=on_folder)
        if len(differences) > _MANY:
            self._objects = self._git.tracked()
        self._remember(differences)
        self._objects = {}
        if not is_first:
            self._collect(differences)
        if self._contents and saves:
            self._contents.save()
        self._look_s = time.monotonic() - started

    def _open(self) -> bool:
        """Opens the cache; True when nothing was known, so that nothing can be said to have changed."""
        try:
            self._contents = Contents(self._folder, max_bytes=self._max_bytes)
        except OSError as error:
            self._problem = f"the cache cannot be used: {error.strerror}"
            return True
        known = self._contents.load()
        for hidden, entry in (known or {}).items():
            # What another session has hidden is not known here: that file counts as not seen yet.
            if not PLACEHOLDER.search(path := self._expand(hidden)):
                self._tree.set(path, entry)
        return known is None

    def _close(self) -> None:
        with self._turn:
            if self._contents:
                self._contents.close()
                self._contents = None

    def _remember(self, differences: list[Difference]) -> None:
        """Makes sure of the content of everything that is new, and settles what was only suspected."""
        patience_ends = time.monotonic() + _PATIENCE_S
        later, self._later = self._later, set()
        listed = {difference.path for difference in differences}
        again = ((path, self._tree.get(path)) for path in later - listed)
        differences += [Difference(path, entry, entry) for path, entry in again if entry]
        is_hiding = self._holds_secrets(os.fsencode("\0".join(item.path for item in differences)))
        progress = ScanProgress(self._tell, "keeping contents of the workspace", len(differences))
        for item in differences:
            new = item.new
            progress.add()
            if new is not None and not new.is_folder:
                if time.monotonic() > patience_ends or self._is_closed:
                    new.reason = new.reason if new.content else _LATER
                    self._later.add(item.path)
                else:
                    item.new = self._with_content(item, new)
            is_other = item.new is not item.old or item.new is None
            if self._contents and is_other and is_text(item.path):
                self._contents.see(self._hide(item.path) if is_hiding else item.path, item.new)

    def _with_content(self, item: Difference, new: TreeEntry) -> TreeEntry:
        """The entry with its content; the same object when a suspicion turned out to be wrong."""
        path = f"{self._prefix}{item.path}"
        name = item.path.rpartition("/")[2]
        data: bytes | None = None
        now, reason = new, ""
        if new.is_link:
            try:
                data = read_link(path)
            except OSError as error:
                reason = f"it cannot be read: {error.strerror}"
        elif not new.is_file:
            reason = "it is a pipe, socket or device"
        elif not is_text(item.path):
            reason = NOT_TEXT
        elif self._is_secret(name):
            reason = _HOLDS_SECRETS
        elif new.size > self._max_file_bytes:
            reason = too_large(self._max_file_bytes)
        else:
            data, now, reason = read_file(path, new, max_bytes=self._max_file_bytes)
        content = ""
        if data is not None:
            content = hashlib.sha256(data).hexdigest()
            reason = self._safe(item.path, content, data)
        if item.old is new and content == new.content and reason == new.reason:
            new.is_fresh = is_fresh(new.ctime_ns)
            return new
        now = copy(new) if now is item.old else now  # what was suspected stays as it was
        now.content, now.reason = "" if reason else content, reason
        if now is not new:
            self._tree.set(item.path, now)
        return now

    def _safe(self, path: str, sha256: str, data: bytes) -> str:
        """Keeps a content unless it is safe already; gives why not when that is impossible."""
        contents = self._contents
        if contents is None:
            return self._problem
        if contents.has(sha256) or sha256 in self._private:
            return ""
        tracked = self._objects.get(path, "")
        if tracked and object_id(data, like=tracked) == tracked:
            contents.keep_object(sha256, len(data), tracked)
            return ""
        if not self._holds_secrets(data):
            return contents.keep(sha256, data)
        if sum(map(len, self._private.values())) + len(data) > _PRIVATE_BYTES:
            return "it holds secrets, and there is no room for more of them in memory"
        self._private[sha256] = data
        return ""

    def _collect(self, differences: list[Difference]) -> None:
        for item in differences:
            earlier = self._found.get(item.path)
            if earlier is not None:
                earlier.new = item.new
            elif item.new is not item.old:
                self._found[item.path] = item


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

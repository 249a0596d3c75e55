"""Looks at a goal's folder and says which artifacts are otherwise than the journal knows.

A file is hashed only when its status changed, so 20,000 unchanged files cost less than 100 ms.
Links, pipes and devices are not artifacts and are never opened; `.git`, dependencies and caches are not
entered; ignore files are respected. What is known is kept in a cache that may be deleted at any time: the
journal alone says what has changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.disk.files import make_file, make_folder
from mainspring.disk.scan import ScanProgress
from mainspring.events import ArtifactChange, ArtifactsChanged, Blob
from mainspring.evidence.artifacts import LISTED_FROM, Artifact, SeenFile, compare, listing_of, summed
from mainspring.sandbox.files import Files
from mainspring.tools.globs import IGNORE_FILES, glob_regex
from mainspring.tools.walk import Level, ignore_rules, is_ignored, level_of, shown
from mainspring.workspace import Keep
from mainspring.workspace.stable_read import hash_file, read_file, too_large
from mainspring.workspace.tree import Difference, Tree, TreeEntry, is_fresh

MAX_HASHED_BYTES = 8_000_000_000
PREVIEWED = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".csv": "text/csv",
    ".json": "application/json",
}
MAX_PREVIEW_BYTES = 200_000
MAX_PREVIEWS_BYTES = 1_000_000
MAX_PREVIEWS = 12

_OWN_FOLDER = ".mainspring"
_OWN_PREFIX = ".mainspring-"
_RULE_ENDINGS = ("ignore", ".git")
_LARGE_BYTES = 4_000_000
_FORMAT = 1
_HOLDS_SECRETS = "files of that name hold secrets"


class _Cache(msgspec.Struct):
    """What was known when the last process left: `rules` tells the ignore files apart, `ignored` are the
    files (not folders) that they leave out."""

    rules: str
    entries: dict[str, TreeEntry]
    ignored: set[str]
    format_version: int = _FORMAT


_DECODE = msgspec.msgpack.Decoder(_Cache).decode


class GoalFolder:
    """The folder `root` as the policy of `files` shows it. `include` are patterns of files that count (all,
    when there are none); `left_out` are paths of ours in it, such as the memory file and logs. What somebody
    else has just hashed, `known_content`, is not read again."""

    def __init__(
        self,
        files: Files,
        root: Path,
        cache: Path,
        *,
        include: tuple[str, ...] = (),
        left_out: tuple[Path, ...] = (),
        holds_secrets: Callable[[bytes], bool] = lambda _: False,
        known_content: Callable[[str, TreeEntry], str] = lambda _path, _entry: "",
    ) -> None:
        self._files = files
        self._root = root
        # What is left out is not in the cache, so another choice of it has another cache.
        key = hashlib.sha256(repr((str(root), sorted(map(str, left_out)))).encode()).hexdigest()
        self._cache = cache / f"{key[:16]}.artifacts"
        self._include = tuple(glob_regex(pattern) for pattern in include)
        self._is_shown = shown(files, root)
        self._holds_secrets = holds_secrets
        self._known_content = known_content
        self._is_closed = False
        own = (*left_out, root / _OWN_FOLDER)
        self._tree = Tree(
            root,
            scan=files.scan,
            left_out=own,
            is_stopped=lambda: self._is_closed,
            on_progress=self._tell,
        )
        self._turn = threading.Lock()
        self._rules = ""
        self._levels: dict[str, list[Level]] = {}
        self._ignored_folders: dict[str, bool] = {}
        self._ignored: dict[str, bool] = {}
        self._inner_rules: dict[str, tuple[int, ...]] = {}
        self._is_loaded = False
        self._now: dict[str, SeenFile] = {}

    async def look(
        self, known: Mapping[str, Artifact], iteration: int, made_by: Mapping[str, str], keep: Keep
    ) -> ArtifactsChanged | None:
        """What is otherwise than `known`; None when nothing is. Long hashing happens in a thread."""
        try:
            now, left = await asyncio.to_thread(self._scan, known)
        except asyncio.CancelledError:
            self._is_closed = True
            raise
        counted = {path: old for path, old in known.items() if path not in left}
        changes = compare(counted, now, made_by)
        if not changes:
            return None
        event = summed(iteration, changes)
        listing = None
        if len(changes) > LISTED_FROM:
            listing = await keep(listing_of(changes), "application/json")
        previews = await self._previews(changes, keep) if iteration else ()
        return msgspec.structs.replace(event, listing=listing, previews=previews)

    def _tell(self, progress: str) -> None:
        self._files.scan.on_progress(progress)

    def _scan(self, known: Iterable[str]) -> tuple[dict[str, SeenFile], set[str]]:
        """The files that count, and those known ones that are there and no longer count."""
        with self._turn:
            self._is_closed = False
            is_first = not self._is_loaded
            if is_first:
                self._load()
            differences = self._tree.look()
            if self._are_rules_new(differences, is_first=is_first) or is_first:
                self._now = {}
                looked = [(path, entry, entry) for path, entry in self._tree.entries()]
            else:
                looked = [(item.path, item.old, item.new) for item in differences]
            suspects = {item.path for item in differences if item.new is not None}
            is_news = any(item.new is not item.old for item in differences)
            progress = ScanProgress(self._tell, "hashing the workspace", len(looked))
            for path, old, new in looked:
                progress.add()
                if self._is_closed:
                    # What was not looked at must be found again.
                    self._is_loaded = False
                    break
                entry = self._taken(path, new, is_suspect=path in suspects)
                is_news = is_news or (entry is not None and entry is not old)
            if is_news:
                self._save()
            absent = (path for path in known if path not in self._now)
            return dict(self._now), {path for path in absent if _is_there(self._root / path)}

    def _taken(self, path: str, entry: TreeEntry | None, *, is_suspect: bool) -> TreeEntry | None:
        """Notes a path as it is now, and gives its entry with its content."""
        if entry is None or not entry.is_file or not self._is_counted(path):
            self._now.pop(path, None)
            return None
        if is_suspect or not (entry.content or entry.reason):
            entry = self._hashed(path, entry)
        self._now[path] = SeenFile(entry.content, entry.size, entry.mtime_ns // 1000)
        return entry

    def _hashed(self, path: str, entry: TreeEntry) -> TreeEntry:
        full = f"{self._root}/{path}"
        content, now, reason = "", entry, ""
        if not self._is_shown(path):
            reason = _HOLDS_SECRETS
        elif entry.size > MAX_HASHED_BYTES:
            reason = too_large(MAX_HASHED_BYTES)
        elif known := self._known_content(full, entry):
            content = known
        elif entry.size > _LARGE_BYTES:
            content, now, reason = hash_file(full, entry, is_stopped=lambda: self._is_closed)
        else:
            data, now, reason = read_file(full, entry, max_bytes=_LARGE_BYTES)
            content = hashlib.sha256(data).hexdigest() if data is not None else ""
        # What could not be read is tried again, and what may change without a trace is read again.
        is_open = reason not in ("", _HOLDS_SECRETS, too_large(MAX_HASHED_BYTES)) or is_fresh(now.ctime_ns)
        now = msgspec.structs.replace(now, content=content, reason=reason, is_fresh=is_open)
        if now == entry:
            return entry
        self._tree.set(path, now)
        return now

    def _is_counted(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if name == ".git" or name.startswith(_OWN_PREFIX):
            return False
        if self._include and not any(pattern.fullmatch(path) for pattern in self._include):
            return False
        is_left_out = self._ignored.get(path)
        if is_left_out is None:
            folder = path.rpartition("/")[0]
            is_left_out = self._is_folder_ignored(folder) or self._is_ignored(folder, path, is_dir=False)
            self._ignored[path] = is_left_out
        return not is_left_out

    def _is_folder_ignored(self, folder: str) -> bool:
        if not folder:
            return False
        found = self._ignored_folders.get(folder)
        if found is None:
            above = folder.rpartition("/")[0]
            found = self._is_folder_ignored(above) or self._is_ignored(above, folder, is_dir=True)
            self._ignored_folders[folder] = found
        return found

    def _is_ignored(self, above: str, path: str, *, is_dir: bool) -> bool:
        levels = self._levels_of(above)
        if not any(level.rules for level in levels):
            return False
        return is_ignored(levels, self._root / path, is_dir=is_dir)

    def _levels_of(self, folder: str) -> list[Level]:
        found = self._levels.get(folder)
        if found is None:
            above = self._levels_of(folder.rpartition("/")[0]) if folder else self._outer()
            found = self._levels[folder] = [*above, self._level(folder)]
        return found

    def _level(self, folder: str) -> Level:
        prefix = f"{folder}/" if folder else ""
        place = self._root / folder
        present = [name for name in IGNORE_FILES if self._tree.get(prefix + name)]
        rules = {name: found for name in present if (found := ignore_rules(self._files, place / name))}
        return Level(place, rules, is_repository=self._tree.get(f"{prefix}.git") is not None)

    def _outer(self) -> list[Level]:
        return [level_of(self._files, folder) for folder in reversed(self._root.parents)]

    def _are_rules_new(self, differences: list[Difference], *, is_first: bool) -> bool:
        """Forgets what was ignored when an ignore file, here or above, is another than before."""
        names = {*IGNORE_FILES, ".git"}
        if is_first or any(item.path.rpartition("/")[2] in names for item in differences):
            inner = ((path, entry) for path, entry in self._tree.entries() if path.endswith(_RULE_ENDINGS))
            found = {path: entry for path, entry in inner if path.rpartition("/")[2] in names}
            # Of git's own folder it matters only that it is there.
            self._inner_rules = {
                path: (entry.ctime_ns, entry.size) if entry.is_file else () for path, entry in found.items()
            }
        outer: list[tuple[str, int]] = []
        for path in (folder / name for folder in self._root.parents for name in sorted(names)):
            with suppress(OSError):
                outer.append((str(path), path.lstat().st_ctime_ns if path.name != ".git" else 0))
        rules = hashlib.sha256(repr((sorted(self._inner_rules.items()), outer)).encode()).hexdigest()
        if rules == self._rules:
            return False
        self._rules = rules
        self._levels, self._ignored_folders, self._ignored = {}, {}, {}
        return True

    def _load(self) -> None:
        self._is_loaded = True
        try:
            cache = _DECODE(self._cache.read_bytes())
        except (OSError, msgspec.MsgspecError):
            return
        if cache.format_version != _FORMAT:
            return
        self._rules = cache.rules
        self._ignored = {path: path in cache.ignored for path in cache.entries}
        for path, entry in cache.entries.items():
            self._tree.set(path, entry)

    def _save(self) -> None:
        entries = self._without_secrets(dict(self._tree.entries()))
        ignored = {path for path in entries if self._ignored.get(path)}
        data = msgspec.msgpack.encode(_Cache(self._rules, entries, ignored))
        temporary = self._cache.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # without a cache the next process hashes once more
            make_folder(self._cache.parent)
            make_file(temporary)
            temporary.write_bytes(data)
            temporary.replace(self._cache)

    def _without_secrets(self, entries: dict[str, TreeEntry]) -> dict[str, TreeEntry]:
        """Files without a secret in their names; the others are hashed again by the next process."""
        if not self._holds_secrets(os.fsencode("\0".join(entries))):
            return entries
        return {path: entry for path, entry in entries.items() if not self._holds_secrets(os.fsencode(path))}

    async def _previews(self, changes: list[ArtifactChange], keep: Keep) -> tuple[Blob, ...]:
        """Contents for the report, the pictures first; a few small ones, and no secrets."""
        wanted = [
            change
            for change in changes
            if change.sha256 and change.kind != "deleted" and 0 < change.size <= MAX_PREVIEW_BYTES
            if Path(change.path).suffix.lower() in PREVIEWED
            if self._is_shown(change.path)
        ]
        wanted.sort(key=lambda change: not _media_type(change.path).startswith("image/"))
        kept: list[Blob] = []
        for change in wanted:
            if len(kept) == MAX_PREVIEWS or sum(blob.size for blob in kept) > MAX_PREVIEWS_BYTES:
                break
            data = await asyncio.to_thread(self._content, change)
            if data is not None:
                kept.append(await keep(data, _media_type(change.path)))
        return tuple(kept)

    def _content(self, change: ArtifactChange) -> bytes | None:
        entry = self._tree.get(change.path)
        if entry is None:
            return None
        data, _, _ = read_file(f"{self._root}/{change.path}", entry, max_bytes=MAX_PREVIEW_BYTES)
        is_same = data is not None and hashlib.sha256(data).hexdigest() == change.sha256
        return data if is_same else None


def _is_there(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _media_type(path: str) -> str:
    return PREVIEWED[Path(path).suffix.lower()]

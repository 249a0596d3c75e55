"""Find in a workspace what a policy protects or hides, at any depth and for every run anew.

Repositories are found wherever they are: nested, bare, submodules, worktrees, `gitdir:` targets. The kernel
tells which folders changed, so a second look costs what has changed; where it cannot, every folder is asked
for its times. A listing that the time machine read is used only when the folder, asked now, proves that it
still holds (`disk/scan.py`): something untrusted may have run since. Links are not followed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec

from mainspring.disk.scan import FolderListing, Scan, walk
from mainspring.sandbox.git_settings import named_paths, pointer
from mainspring.sandbox.hidden import HIDDEN_NAMES, may_be_key, names_matching
from mainspring.sandbox.policy import (
    MAX_FOLDERS,
    PROTECTED_IN_GIT,
    Confinement,
    is_hidden_name,
    is_repository,
)
from mainspring.sandbox.watch import Changes, FolderWatch

MAX_WATCHED = 20_000


class SurveyFindings(msgspec.Struct, frozen=True):
    """What exists, by path with its inode: a thing that was only moved is still the same thing.

    `git_dirs` are all repositories, whose protected parts may be missing. `is_partial` says that the
    workspace has more folders than are looked at. `linked` are protected paths below a link, which cannot be
    held: it could be replaced.
    """

    protected: dict[Path, int]
    hidden: dict[Path, int]
    git_dirs: dict[Path, int]
    is_partial: bool = False
    linked: frozenset[Path] = frozenset()


class _Folder(msgspec.Struct, frozen=True):
    """What a listing means under a policy; the listing is the folder's until it changes. `keys` are files
    that may hold one: what is in them is looked at each time."""

    listing: FolderListing
    protected: list[tuple[str, int]]
    hidden: list[tuple[str, int]]
    keys: list[tuple[str, int]]
    below: list[str]

    @property
    def has_git(self) -> bool:
        return ".git" in self.listing.names

    @property
    def is_bare(self) -> bool:
        return is_repository(self.listing.names)

    @property
    def is_telling(self) -> bool:
        return bool(self.protected or self.hidden or self.keys or self.has_git or self.is_bare)


class Survey:
    """Keeps what it learned about folders between looks."""

    def __init__(self, scan: Scan | None = None, *, is_watching: bool = True) -> None:
        self._scan = scan or Scan()
        self._known: dict[str, _Folder] = {}
        self._telling: list[tuple[str, _Folder]] = []
        self._policy: Confinement | None = None
        self._unseen: set[str] = set()
        self._is_watching = is_watching
        self._watch: FolderWatch | None = None

    def look(self, policy: Confinement) -> SurveyFindings:
        if policy != self._policy:
            self._known.clear()
            self._policy = policy
            self._begin()
        changes = self._watch.changes() if self._watch and self._known else Changes(is_all=True)
        changes.trees |= self._unseen
        if changes:
            self._update(policy, changes)
        protected: dict[Path, int] = {}
        hidden: dict[Path, int] = {}
        git_dirs: dict[Path, int] = {}
        for path, folder in self._telling:
            protected.update((Path(path, name), inode) for name, inode in folder.protected)
            hidden.update((Path(path, name), inode) for name, inode in folder.hidden)
            keys = ((Path(path, name), inode) for name, inode in folder.keys)
            hidden.update(key for key in keys if policy.is_hidden_key(key[0]))
            git_dirs.update((found, inode_of(found)) for found in _repositories(Path(path), folder))
        startup = [(path, inode) for path in _startup_in(policy) if (inode := inode_of(path))]
        protected.update(startup)
        linked = frozenset(path for path, _ in startup if os.path.realpath(path.parent) != str(path.parent))
        if ".git" not in policy.granted:
            for git_dir in git_dirs:
                protected.update(_protected_parts(git_dir, policy))
        return SurveyFindings(protected, hidden, git_dirs, len(self._known) >= MAX_FOLDERS, linked)

    def close(self) -> None:
        if self._watch:
            self._watch.close()
            self._watch = None

    def _begin(self) -> None:
        self.close()
        if self._is_watching:
            with suppress(OSError):
                self._watch = FolderWatch()

    def _update(self, policy: Confinement, changes: Changes) -> None:
        """Lists what changed, and walks over the rest."""
        known: dict[str, _Folder] = {}
        unseen: set[str] = set()

        def enter(item: tuple[str, bool]) -> Iterable[tuple[str, bool]]:
            path, is_new = item
            if path in known:
                return ()
            is_new = is_new or path in changes.trees
            try:
                folder = self._folder(path, policy, is_same=not is_new and path not in changes.folders)
            except FileNotFoundError:
                return ()
            except OSError:
                # Closed to us; the kernel would not tell when it is opened.
                unseen.add(path)
                return ()
            known[path] = folder
            return [(f"{path}/{name}", is_new) for name in folder.below]

        roots = [(str(root), changes.is_all) for root in (policy.workspace, *policy.writable)]
        walk(roots, enter, is_over=lambda: len(known) >= MAX_FOLDERS)
        self._known, self._unseen = known, unseen
        self._telling = [(path, folder) for path, folder in known.items() if folder.is_telling]

    def _folder(self, path: str, policy: Confinement, *, is_same: bool) -> _Folder:
        if self._watch:
            if is_same and path in self._known:
                return self._known[path]
            self._add(path)
        listing = self._scan.read_path(path)
        known = self._known.get(path)
        return known if known and known.listing is listing else _judged(path, listing, policy)

    def _add(self, path: str) -> None:
        """Has a folder watched before it is listed; without room for it, all are looked at as before."""
        if self._watch is None:
            return
        try:
            if self._watch.count >= MAX_WATCHED:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._watch.add(path)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                self.close()
            else:
                raise


def _judged(path: str, listing: FolderListing, policy: Confinement) -> _Folder:
    protected: list[tuple[str, int]] = []
    hidden: list[tuple[str, int]] = []
    keys: list[tuple[str, int]] = []
    below = listing.folders
    held = policy.names_held_in(path)
    for name, inode in listing.inodes.items():
        is_protected = name.casefold() in held and name not in policy.granted and name != ".git"
        if may_be_key(name) and name not in listing.folders:
            keys.append((name, inode))
        is_hidden = is_hidden_name(name, policy) and (is_protected or _is_secret(name, Path(path, name)))
        if not is_protected and not is_hidden:
            continue
        if is_protected:
            protected.append((name, inode))
        if is_hidden:
            hidden.append((name, inode))
        below -= {name}
    return _Folder(listing, protected, hidden, keys, sorted(below - {".git"}))


def _is_secret(name: str, path: Path) -> bool:
    """Folders with the usual names of secrets are something else, like a virtual environment in `.env`."""
    return not names_matching(HIDDEN_NAMES)(name) or not path.is_dir()


def _startup_in(policy: Confinement) -> Iterator[Path]:
    """The protected paths of a home folder that can be written, and where their links lead. Hidden ones are
    not among them: they are held, and what we write there meanwhile is not put back."""
    for path in policy.held_inside():
        if path in policy.protected_paths and policy.protected_part(path) and not policy.refuses_read(path):
            yield path
            target = Path(os.path.realpath(path))
            if target != path and any(root in target.parents for root in policy.roots()):
                yield target


def _repositories(path: Path, folder: _Folder) -> Iterator[Path]:
    if folder.is_bare:
        yield from _with_common(path)
    if folder.has_git:
        yield from git_dirs_of(path / ".git")


def git_dirs_of(dot_git: Path) -> Iterator[Path]:
    """The folders behind a `.git`: itself, its submodules and worktrees, or where a `.git` file points."""
    if os.path.isdir(dot_git):  # noqa: PTH112 - with every command, as what follows
        real = os.path.realpath(dot_git)
        yield Path(real)
        for kind in ("modules", "worktrees"):
            below = f"{real}/{kind}"
            if not os.access(below, os.F_OK):
                continue
            # A link must not make us walk, and tame, what a command only pointed at.
            below = os.path.realpath(below)
            for head in sorted(Path(below).glob("**/HEAD")) if below.startswith(f"{real}/") else ():
                # Logs and the branches of a remote have files of this name too.
                if _is_git_dir(head.parent):
                    yield head.parent
        return
    target = pointer(dot_git, b"gitdir:")
    if target is not None and os.path.isdir(target):  # noqa: PTH112 - no name makes it raise
        yield from _with_common(target)


def _with_common(git_dir: Path) -> Iterator[Path]:
    """A repository, and the one from which it takes its settings and hooks."""
    yield git_dir
    if common := pointer(git_dir / "commondir", b""):
        yield common


def _is_git_dir(folder: Path) -> bool:
    return (folder / "objects").is_dir() or (folder / "commondir").is_file()


def _protected_parts(git_dir: Path, policy: Confinement) -> Iterator[tuple[Path, int]]:
    roots = policy.roots()
    for path in dict.fromkeys((*_parts(git_dir), *named_paths(git_dir))):
        if (inode := inode_of(path)) and any(path.is_relative_to(root) for root in roots):
            # Behind a link it may be anybody's: the link is what a command made.
            is_behind = path.name == "attributes" and os.path.islink(path.parent)  # noqa: PTH114
            yield (path.parent, inode_of(path.parent)) if is_behind else (path, inode)


@lru_cache(maxsize=1024)
def _parts(git_dir: Path) -> tuple[Path, ...]:
    return tuple(git_dir / name for name in PROTECTED_IN_GIT)


def inode_of(path: Path) -> int:
    """0 for what is not there."""
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0

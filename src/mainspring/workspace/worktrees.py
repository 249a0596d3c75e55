"""A copy of a workspace in which somebody else works, and what they changed brought back.

The copy has the files as they are, also those that are not committed, and a repository of its own that
borrows the objects of the workspace's: commits inside it write nothing outside it, in every sandbox, and
cannot move a branch that somebody stands on. Beside it lies a repository of ours, which whoever works in the
copy cannot reach: it knows what the copy began with, and merges. The workspace's own index, branches and HEAD
are never touched; changes are brought back as files. Copies share their blocks with the originals where the
disk can."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from mainspring.disk.files import make_folder
from mainspring.disk.scratch import remove
from mainspring.disk.unfinished import may_be_unfinished
from mainspring.errors import PathRefused, UsageError
from mainspring.events.counts import plural
from mainspring.sandbox.files import Files
from mainspring.workspace.branches import FALLBACK_IDENTITY
from mainspring.workspace.git import Git, GitFailed
from mainspring.workspace.tree import HEAVY_NAMES

if sys.platform != "win32":  # nothing is copied there, but the list of copies is read
    import fcntl

MAX_FILES = 100_000
MAX_BYTES = 2_000_000_000
_FICLONE = 0x40049409
_AS_THEY_ARE = "* -text -filter -ident -working-tree-encoding\n"
_LINK, _GITLINK = b"120000", b"160000"


class WorktreeChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed in a copy. With `conflicts` nothing was brought back: these files were changed in the
    workspace as well, and `both` shows them with both sides. `left_out` could not be brought back, and why.
    """

    files: tuple[str, ...] = ()
    diff: bytes = b""
    is_landed: bool = False
    conflicts: tuple[str, ...] = ()
    both: bytes = b""
    left_out: tuple[str, ...] = ()


class Worktree:
    """The copy of `workspace` in `folder`; `files` says what of it may be read and written."""

    def __init__(self, folder: Path, workspace: Path, files: Files, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.work = folder / "work"
        self._store = folder / "store"
        self._workspace = workspace
        self._files = files
        self._environment = environment
        self._index = self._store / "snapshot-index"
        self._ready = folder / "ready"

    def make(self) -> None:
        """Makes the copy, unless it is there. `UsageError` says why there can be none."""
        if self.is_made:
            return
        if shutil.which("git", path=self._environment.get("PATH")) is None:
            raise UsageError(
                "A copy of the workspace needs git, which is not installed.", remedy="Install git."
            )
        remove(self.folder)
        for each in (self.folder, self._store, self.work):
            make_folder(each)
        outer = Git(self._workspace, self._environment)
        head = _head(outer)
        objects = _objects(outer)
        self._copy(_listed(outer, self._workspace, self._refused) if objects else self._walked())
        store = Git(self._store, self._environment)
        store.run("init", "--quiet", "--bare", ".")
        _borrow(self._store, objects)
        _write(self._store / "info" / "attributes", _AS_THEY_ARE)
        self._in_store(self.work, "add", "--all", "--force", ".")
        tree = self._in_store(self.work, "write-tree").decode().strip()
        base = self._commit(tree, head)
        self._in_store(self.work, "update-ref", "refs/mainspring/base", base)
        self._make_own_repository(base, objects)
        self._ready.touch()

    def changes(self, *, is_landing: bool) -> WorktreeChanges:
        """What was changed in the copy; brought back into the workspace if that `is_landing` and nothing
        conflicts."""
        base = self._in_store(self.work, "rev-parse", "refs/mainspring/base").decode().strip()
        mine = self._snapshot(self.work, base)
        names = self._in_store(self.work, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, mine)
        files = tuple(name.decode("utf-8", "replace") for name in names.split(b"\0") if name)
        inner = tuple(f"{name} (it is a repository)" for name in self._repositories())
        diff = self._in_store(self.work, "diff", "--no-color", "--no-ext-diff", "--no-textconv", base, mine)
        found = WorktreeChanges(files=files, diff=diff, left_out=inner)
        if not is_landing or not files:
            return found
        outer = Git(self._workspace, self._environment)
        listed = _listed(outer, self._workspace, self._refused) if _objects(outer) else self._walked()
        now = self._snapshot(self._workspace, base, tuple(listed))
        merged = self._in_store(
            self.work,
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
            now,
            mine,
            fine=(0, 1),
        )
        tree, *clashing = [part.decode("utf-8", "replace") for part in merged.split(b"\0") if part]
        if clashing:
            both = b"".join(self._marked(tree, name) for name in dict.fromkeys(clashing))
            return msgspec.structs.replace(found, conflicts=tuple(dict.fromkeys(clashing)), both=both)
        return msgspec.structs.replace(found, is_landed=True, left_out=(*inner, *self._apply(now, tree)))

    @property
    def is_made(self) -> bool:
        return self._ready.exists()

    @property
    def borrowed(self) -> tuple[Path, ...]:
        """Folders of objects that the repository in the copy needs to read."""
        objects = _objects(Git(self._workspace, self._environment))
        return tuple(each for each in (objects, self._store / "objects") if each)

    def remove(self) -> None:
        remove(self.folder)

    def _refused(self, path: Path) -> bool:
        return bool(self._files.policy.refuses_read(path))

    def _walked(self) -> Iterator[str]:
        """The files of a workspace without a repository, but for dependencies, caches and secrets."""
        for folder, folders, names in os.walk(self._workspace):
            here = Path(folder)
            folders[:] = sorted(name for name in folders if name not in HEAVY_NAMES)
            for name in sorted(names):
                if _is_copied(here / name, self._refused):
                    yield str((here / name).relative_to(self._workspace))

    def _copy(self, listed: Iterator[str]) -> None:
        count = size = 0
        for name in listed:
            source, target = self._workspace / name, self.work / name
            count, size = count + 1, size + source.lstat().st_size
            if count > MAX_FILES or size > MAX_BYTES:
                raise UsageError(
                    f"The workspace is too large to be copied: more than {MAX_FILES:,} files or"
                    f" {MAX_BYTES // 1_000_000:,} MB.",
                    remedy="Leave out what is not needed with .gitignore, or use an agent that only reads.",
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            _copied(source, target)

    def _make_own_repository(self, base: str, objects: Path | None) -> None:
        """The repository of whoever works in the copy: a branch at what the copy began with."""
        own = Git(self.work, self._environment)
        own.run("init", "--quiet", ".")
        _borrow(self.work / ".git", objects, self._store / "objects")
        _write(self.work / ".git" / "info" / "attributes", _AS_THEY_ARE)
        for key, value in (
            ("user.name", FALLBACK_IDENTITY["GIT_AUTHOR_NAME"]),
            ("user.email", FALLBACK_IDENTITY["GIT_AUTHOR_EMAIL"]),
            ("gc.auto", "0"),
        ):
            own.run("config", key, value)
        branch = f"refs/heads/mainspring/{self.folder.name}"
        own.run("update-ref", branch, base)
        own.run("symbolic-ref", "HEAD", branch)
        own.run("read-tree", base)

    def _snapshot(self, place: Path, base: str, listed: tuple[str, ...] | None = None) -> str:
        """A commit of the files of a place: of those that are listed, else of all that are not ignored."""
        index = self._index
        for each in (index, index.with_name(f"{index.name}.lock")):  # a killed git leaves its lock
            each.unlink(missing_ok=True)
        env = {"GIT_INDEX_FILE": str(index)}
        if listed is None:
            self._in_store(place, "read-tree", base, env=env)
            try:
                self._in_store(place, "add", "--all", ".", env=env)
            except GitFailed:  # as for a repository without a commit: all but such ones
                self._in_store(place, "add", "--update", ".", env=env)
                names = b"".join(name + b"\0" for name in self._others(place) if not name.endswith(b"/"))
                self._in_store(place, "update-index", "--add", "-z", "--stdin", stdin=names, env=env)
            known = self._in_store(place, "ls-files", "-z", env=env).split(b"\0")
            left = [name for name in known if may_be_unfinished(os.fsdecode(name).rpartition("/")[2])]
            if left:  # of a write that a crash broke off
                names = b"\0".join(left)
                self._in_store(place, "update-index", "--force-remove", "-z", "--stdin", stdin=names, env=env)
        else:
            names = b"".join(os.fsencode(name) + b"\0" for name in listed)
            self._in_store(place, "update-index", "--add", "-z", "--stdin", stdin=names, env=env)
        tree = self._in_store(place, "write-tree", env=env).decode().strip()
        return self._commit(tree, base)

    def _others(self, place: Path) -> list[bytes]:
        """What is new in a place, beside what the last snapshot has; repositories end with a slash."""
        env = {"GIT_INDEX_FILE": str(self._index)}
        found = self._in_store(place, "ls-files", "-z", "--others", "--exclude-standard", env=env)
        return [name for name in found.split(b"\0") if name]

    def _repositories(self) -> list[str]:
        """Repositories without a commit that were made in the copy."""
        return [printable(os.fsdecode(name)) for name in self._others(self.work) if name.endswith(b"/")]

    def _commit(self, tree: str, above: str) -> str:
        parents = ("-p", above) if above else ()
        made = self._in_store(
            self.work, "commit-tree", tree, *parents, "-m", "mainspring: files", env=FALLBACK_IDENTITY
        )
        return made.decode().strip()

    def _marked(self, tree: str, name: str) -> bytes:
        content = self._in_store(self.work, "cat-file", "blob", f"{tree}:{name}", check=False)
        return f"===== {name}\n".encode() + content + b"\n"

    def _apply(self, now: str, tree: str) -> Iterator[str]:
        """Writes what differs into the workspace, and gives what could not be written."""
        listed = self._in_store(self.work, "diff-tree", "-r", "-z", "--no-renames", now, tree).split(b"\0")
        for facts, path in zip(listed[::2], listed[1::2], strict=False):
            _, mode, _, content, status = facts.split()
            name = path.decode("utf-8", "surrogateescape")
            if mode in (_LINK, _GITLINK):
                yield f"{printable(name)} (it is a link or a repository)"
                continue
            try:
                if status == b"D":
                    self._files.remove(name)
                    self._remove_empty(Path(name).parent)
                else:
                    data = self._in_store(self.work, "cat-file", "blob", content.decode())
                    self._files.write(name, data, mode=int(mode[-3:], 8))
                    (self._workspace / name).chmod(int(mode[-3:], 8))
            except (OSError, PathRefused) as error:
                yield printable(f"{name} ({error})")

    def _remove_empty(self, folder: Path) -> None:
        with suppress(OSError):
            while folder != Path():
                (self._workspace / folder).rmdir()
                folder = folder.parent

    def _in_store(
        self,
        place: Path,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        fine: tuple[int, ...] = (0,),
    ) -> bytes:
        """git with our repository, on the files of a place."""
        usual = {"GIT_DIR": str(self._store), "GIT_WORK_TREE": str(place), "GIT_LITERAL_PATHSPECS": "1"}
        git = Git(place, self._environment)
        return git.run(*arguments, stdin=stdin, env={**usual, **(env or {})}, check=check, fine=fine)


def unsaved_in_copy(folder: Path, environment: Mapping[str, str]) -> str:
    """What was changed in a copy since it was made; empty when nothing was. Nobody works in it."""
    work, store = folder / "work", folder / "store"
    if not (folder / "ready").exists():
        return ""  # nobody has worked in what was not made whole
    try:
        git = Git(work, environment)
        places = {
            "GIT_DIR": str(store),
            "GIT_WORK_TREE": str(work),
            "GIT_INDEX_FILE": str(store / "left-index"),
        }
        git.run("read-tree", "refs/mainspring/base", env=places)
        listed = git.run("status", "--porcelain", "-z", "--no-renames", env=places)
    except (GitFailed, OSError):
        return "whether anything in it was changed is unknown"
    # git compares with its own HEAD, which has nothing in this repository: what differs is the second letter.
    changed = [each for each in listed.split(b"\0") if each[1:2].strip() and each[:2] != b"!!"]
    return f"{plural(len(changed), 'file')} with changes that were not brought back" if changed else ""


def printable(text: str) -> str:
    """A text with the name of a file that may not be UTF-8, as it can be recorded."""
    return text.encode("utf-8", "backslashreplace").decode()


def _listed(outer: Git, workspace: Path, is_refused: Callable[[Path], bool]) -> Iterator[str]:
    """The files of a workspace with a repository: tracked, and new ones that are not ignored; those of its
    submodules as well. Other repositories inside it are left out, as are secrets, and what lies behind a link
    that took the place of a folder."""
    names = outer.run("ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
    is_there = cache(_is_there)
    for name in dict.fromkeys(os.fsdecode(name) for name in names if name):
        path = workspace / name
        if not is_there(path.parent):
            continue
        if _is_copied(path, is_refused):
            yield name
        elif not name.endswith("/") and _is_there(path) and (path / ".git").exists():
            inner = _listed(Git(path, outer.environment), path, is_refused)
            yield from (f"{name}/{each}" for each in inner)


def _is_there(folder: Path) -> bool:
    """Whether a path of a folder leads to it without links."""
    return folder.is_dir() and folder.resolve() == folder


def _is_copied(path: Path, is_refused: Callable[[Path], bool]) -> bool:
    """Regular files and links, never pipes or devices, which a copy would wait for."""
    return (path.is_symlink() or path.is_file()) and not may_be_unfinished(path.name) and not is_refused(path)


def _head(outer: Git) -> str:
    """The commit that the workspace stands on, if it is the top of a repository."""
    if outer.text("rev-parse", "--show-prefix", check=False):
        return ""
    return outer.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False)


def _objects(outer: Git) -> Path | None:
    """Where the repository of a workspace keeps its objects; None without one."""
    found = outer.text("rev-parse", "--git-path", "objects", check=False)
    return (outer.folder / found).resolve() if found else None


def _borrow(repository: Path, *objects: Path | None) -> None:
    lines = "".join(f"{each}\n" for each in objects if each)
    if lines:
        _write(repository / "objects" / "info" / "alternates", lines)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _copied(source: Path, target: Path) -> None:
    """A copy that shares its blocks with the original where the disk can."""
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    try:
        with source.open("rb") as old, target.open("xb") as new:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        shutil.copystat(source, target)
    except OSError:
        shutil.copy2(source, target)

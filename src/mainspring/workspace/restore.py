"""Puts files back as they were: plan from what is recorded, look whether that is safe, then do it.

A plan is safe when every file is as the last recorded change left it (or already as it should become), and
no one else changed it in between. One file at a time is replaced whole, so a crash leaves each file in one
of its two states, and running the same plan again completes it. What cannot be put back is left alone.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from mainspring.disk.untrusted import open_untrusted
from mainspring.events import ChangeKind, FileChange, FilesChanged, FileState


class RestoreStep(msgspec.Struct, frozen=True):
    """A path that is in the state `now` by the record and shall be in the state `then`."""

    path: str
    now: FileState | None
    then: FileState | None


class RestorePlan(msgspec.Struct, frozen=True):
    """`foreign` were changed by someone else between recorded changes; `lost` cannot be put back."""

    steps: tuple[RestoreStep, ...] = ()
    foreign: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def plan(changed: Iterable[FilesChanged]) -> RestorePlan:
    """How to get from after these changes to before them; they are given oldest first."""
    foreign: list[str] = []
    steps = [step for step in net(changed, foreign.append) if not is_same(step.now, step.then)]
    whole = [step for step in steps if is_kept(step.now) and is_kept(step.then)]
    lost = [f"{step.path} ({_why(step)})" for step in steps if step not in whole]
    wanted = {step.path for step in whole}
    return RestorePlan(
        tuple(ordered(whole)), tuple(path for path in dict.fromkeys(foreign) if path in wanted), tuple(lost)
    )


def net(
    changed: Iterable[FilesChanged], on_foreign: Callable[[str], None] = lambda _: None
) -> list[RestoreStep]:
    """Each path with its state after all these changes and before the first; `on_foreign` hears of a path
    that someone else changed in between."""
    first: dict[str, FileState | None] = {}
    last: dict[str, FileState | None] = {}
    for event in changed:
        for change in event.changes:
            for path, before, after in transitions(change):
                if path in last and not is_same(last[path], before):
                    on_foreign(path)
                first.setdefault(path, before)
                last[path] = after
    return [RestoreStep(path, now, first[path]) for path, now in last.items()]


def is_same(one: FileState | None, other: FileState | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.kind != other.kind or not (is_kept(one) and is_kept(other)):
        return False
    is_equal_mode = one.kind == "link" or one.mode == other.mode
    return is_equal_mode and one.content_sha256 == other.content_sha256


def conflicts(root: Path, steps: Iterable[RestoreStep]) -> list[str]:
    """The paths that are neither as recorded nor as they shall be."""
    return [step.path for step in steps if state_of(root, step) not in ("now", "then")]


def state_of(root: Path, step: RestoreStep) -> str:
    """Whether the path is in the state `now`, `then`, or some `other`."""
    if not _is_reachable(root, step.path):
        return "now" if step.now is None else "then" if step.then is None else "other"
    for name, state in (("now", step.now), ("then", step.then)):
        if _is_in(root / step.path, state):
            return name
    return "other"


def holds(root: Path, path: str, state: FileState | None) -> bool:
    """Whether a path has this content, whatever its mode; machines differ in that."""
    if not _is_reachable(root, path):
        return state is None
    return _has_content(root / path, state)


def apply(root: Path, step: RestoreStep, data: bytes) -> bool:
    """Takes one step; `data` is the content that the file shall have. False when a folder that should go
    holds something that is not ours."""
    path = root / step.path
    match step.then:
        case None:
            return _remove(path)
        case FileState(kind="folder"):
            if path.is_symlink() or path.is_file():
                path.unlink()
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(step.then.mode)
        case _:
            if path.is_dir() and not path.is_symlink() and not _remove(path):
                return False
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, step.then, data)
    return True


def as_change(step: RestoreStep) -> FileChange:
    kind: ChangeKind = "modified"
    if step.now is None:
        kind = "created"
    elif step.then is None:
        kind = "deleted"
    elif step.now.content_sha256 == step.then.content_sha256 and step.now.kind == step.then.kind:
        kind = "mode"
    return FileChange(path=step.path, kind=kind, before=step.now, after=step.then)


def transitions(change: FileChange) -> Iterator[tuple[str, FileState | None, FileState | None]]:
    if change.kind == "renamed":
        yield change.renamed_from, change.before, None
        yield change.path, None, change.after
    else:
        yield change.path, change.before, change.after


def is_kept(state: FileState | None) -> bool:
    return state is None or state.kind == "folder" or state.blob is not None


def _why(step: RestoreStep) -> str:
    return next((state.reason for state in (step.then, step.now) if state and state.reason), "not kept")


def ordered(steps: list[RestoreStep]) -> Iterator[RestoreStep]:
    """What goes, from the inside out; then what comes, from the outside in; modes of folders at the end."""
    depth = {step.path: step.path.count("/") for step in steps}
    going = [step for step in steps if step.then is None]
    going.sort(key=lambda step: (-depth[step.path], step.path))
    coming = [step for step in steps if step.then is not None and not _is_mode_of_folder(step)]
    coming.sort(key=lambda step: (depth[step.path], step.path))
    modes = [step for step in steps if _is_mode_of_folder(step)]
    modes.sort(key=lambda step: -depth[step.path])
    yield from (*going, *coming, *modes)


def _is_mode_of_folder(step: RestoreStep) -> bool:
    return bool(step.now and step.then and step.now.kind == step.then.kind == "folder")


def leads_out(root: Path, path: str) -> bool:
    """Whether a path, or a link above it, leads out of a folder."""
    inside = Path(path)
    if inside.is_absolute() or ".." in inside.parts:
        return True
    return any((root / above).is_symlink() for above in inside.parents)


def _is_reachable(root: Path, path: str) -> bool:
    """Whether everything above the path is a real folder; a link there would lead elsewhere."""
    above = root
    for part in Path(path).parts[:-1]:
        above /= part
        try:
            if not stat.S_ISDIR(above.lstat().st_mode):
                return False
        except OSError:
            return False
    return True


def _is_in(path: Path, state: FileState | None) -> bool:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return state is None
    except OSError:
        return False
    if state is None or not _has_content(path, state):
        return False
    return state.kind == "link" or stat.S_IMODE(found.st_mode) == state.mode


def _has_content(path: Path, state: FileState | None) -> bool:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return state is None
    except OSError:
        return False
    if state is None:
        return False
    if state.kind == "folder":
        return stat.S_ISDIR(found.st_mode)
    if not state.content_sha256:
        return False
    if state.kind == "link":
        return stat.S_ISLNK(found.st_mode) and _hash(os.fsencode(path.readlink())) == state.content_sha256
    is_alike = stat.S_ISREG(found.st_mode) and found.st_size == state.size
    return is_alike and _hash_of(path) == state.content_sha256


def _remove(path: Path) -> bool:
    try:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _replace(path: Path, state: FileState, data: bytes) -> None:
    # Always the same name beside the same file, so that going on after a crash cleans up.
    unfinished = path.with_name(f".mainspring-{_hash(os.fsencode(path.name))[:16]}")
    unfinished.unlink(missing_ok=True)
    if state.kind == "link":
        unfinished.symlink_to(os.fsdecode(data))
    else:
        fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), state.mode)
            os.fsync(file.fileno())
    unfinished.replace(path)


def _hash_of(path: Path) -> str:
    try:
        with open_untrusted(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

"""Undo, after a run, what the kernel could not prevent: new or changed protected paths.

Nothing is deleted. What appeared under a protected name is renamed to a name that nobody executes; what
changed is renamed too and the former content put back. A new repository stays, without hooks and without
the settings that run programs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path

from mainspring.sandbox.git_settings import file_start, safe_settings
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.survey import SurveyFindings

ASIDE = ".set-aside"
MAX_KEPT_BYTES = 1 << 20
MAX_KEPT_FILES = 500
_MAX_SHOWN_FILES = 5
_MAX_SHOWN_LINES = 40
_MAX_SHOWN_CHARACTERS = 200

Kept = tuple[int, bytes]
Stamp = tuple[int, int, int, int]
State = dict[Path, dict[Path, Kept | Stamp | None]]
"""For each protected path the files at or below it with mode and content. What is too large or too much
to keep has a stamp instead: when it changed it is set aside, and nothing can be put back."""


def remember(paths: Iterable[Path]) -> State:
    """What protected paths hold now, as far as it is small."""
    state: State = {}
    for path in paths:
        files = _files(path)
        look = _content if len(files) <= MAX_KEPT_FILES else _stamp
        state[path] = {file: look(file) for file in files}
    return state


def repair(
    policy: Confinement, before: SurveyFindings, after: SurveyFindings, remembered: State
) -> tuple[str, ...]:
    """Sets aside what should not be there; the names, relative to the workspace where possible."""
    changed: list[Path] = []
    old_repositories = set(before.git_dirs.values())
    # A command can name any repository in a `.git` file, but made none where it could not write.
    roots = (policy.workspace, *policy.writable)
    new_repositories = {
        path
        for path, inode in after.git_dirs.items()
        if inode not in old_repositories and any(path.is_relative_to(root) for root in roots)
    }
    for git_dir in sorted(new_repositories):
        changed += _tame(git_dir)
    origins = {inode: path for path, inode in before.protected.items()}
    now = set(after.protected.values())
    for path, inode in sorted(after.protected.items()):
        if path.parent in new_repositories or path in remembered:
            continue
        if inode in origins and _is_moved(origins[inode], path, remembered):
            continue
        if path.parent in before.git_dirs and path.name == "hooks" and _is_empty_folder(path):
            continue  # a confinement makes one where none is, to mount over
        # What stood here was held by the kernel: only somebody outside can have put another in its place,
        # unless a folder above was moved away, with what stood here in it.
        if before.protected.get(path, 0) in now | {0}:
            _set_aside(path)
            changed.append(path)
    for path, files in remembered.items():
        changed += _restore(path, files)
    return tuple(sorted({_shown(path, policy.workspace) for path in changed}))


def _is_moved(origin: Path, path: Path, remembered: State) -> bool:
    """Whether what stood at one path is now at another. The number of a file that was deleted is given to the
    next one that is made, so where nothing held the file, its content must be the same."""
    if origin not in remembered:
        return True
    before = {file.relative_to(origin): kept for file, kept in remembered[origin].items()}
    now = _files(path)
    return before.keys() == {file.relative_to(path) for file in now} and all(
        _is_same(file, before[file.relative_to(path)]) for file in now
    )


def diff_of_aside(workspace: Path, names: Iterable[str]) -> str:
    """What was set aside just now, as differences to what stands in its place."""
    lines: list[str] = []
    for name in names:
        aside = _newest_aside(workspace / name)
        if aside is None:
            continue
        for file in sorted(_files(aside, is_aside=True))[:_MAX_SHOWN_FILES]:
            place = workspace / name / file.relative_to(aside)
            old, new = (_lines_of(path) for path in (place, file))
            lines += unified_diff(old, new, str(place), str(file), lineterm="", n=1)
    more = [f"[… {len(lines) - _MAX_SHOWN_LINES} more lines]"] if len(lines) > _MAX_SHOWN_LINES else []
    return "\n".join(line[:_MAX_SHOWN_CHARACTERS] for line in (*lines[:_MAX_SHOWN_LINES], *more))


def _newest_aside(path: Path) -> Path | None:
    found = [each for each in path.parent.glob("*") if each.name.startswith(path.name + ASIDE)]
    return max(found, key=lambda each: each.lstat().st_ctime_ns, default=None)


def _lines_of(path: Path) -> list[str]:
    kept = _content(path)
    return kept[1].decode("utf-8", "replace").splitlines() if kept and len(kept) == 2 else []


def _is_empty_folder(path: Path) -> bool:
    with suppress(OSError):
        return path.is_dir() and not path.is_symlink() and not any(path.iterdir())
    return False


def _restore(path: Path, files: dict[Path, Kept | Stamp | None]) -> list[Path]:
    if not path.parent.is_dir():
        # The whole repository or folder is gone, and with it whatever would have been run.
        return []
    changed = [file for file, kept in files.items() if not _is_same(file, kept)]
    for file in changed:
        if file.is_symlink() or file.exists():
            _set_aside(file)
        kept = files[file]
        if kept is not None and len(kept) == 2:
            _put_back(file, kept)
    fresh = [file for file in _files(path) if file not in files]
    for file in fresh:
        _set_aside(file)
    return changed + fresh


def _put_back(path: Path, kept: Kept) -> None:
    mode, content = kept
    if stat.S_ISLNK(mode):
        path.symlink_to(os.fsdecode(content))
        return
    if not path.parent.is_dir() or path.parent.is_symlink():
        path.parent.unlink(missing_ok=True)
        path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(stat.S_IMODE(mode))


def _tame(git_dir: Path) -> list[Path]:
    """A repository made during the run: no hooks, no settings that run programs, no detour."""
    changed: list[Path] = []
    for hook in _files(git_dir / "hooks"):
        _set_aside(hook)
        changed.append(hook)
    for name in ("config.worktree", "commondir"):
        # A worktree's own folder needs its commondir; a repository's does not have one.
        if (git_dir / name).exists() and "worktrees" not in git_dir.parts:
            _set_aside(git_dir / name)
            changed.append(git_dir / name)
    config = git_dir / "config"
    # git reads bytes, and so do we: one that is no text hides nothing.
    content = file_start(config, MAX_KEPT_BYTES + 1) or b""
    safe = safe_settings(content.decode("latin-1")).encode("latin-1")[:MAX_KEPT_BYTES]
    # A link leads to a file that may be written later.
    if config.is_symlink() or (config.exists() and (safe != content or not config.is_file())):
        _set_aside(config)
        config.write_bytes(safe)
        changed.append(config)
    return changed


def _set_aside(path: Path) -> None:
    target = path.with_name(path.name + ASIDE)
    number = 1
    while target.exists() or target.is_symlink():
        number += 1
        target = path.with_name(f"{path.name}{ASIDE}-{number}")
    path.rename(target)


def _files(path: Path, *, is_aside: bool = False) -> list[Path]:
    if path.is_symlink() or not path.is_dir():
        return [path] if path.is_symlink() or path.exists() else []
    return [
        Path(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if is_aside or (ASIDE not in name and not name.endswith(".sample"))
    ]


def _is_same(path: Path, kept: Kept | Stamp | None) -> bool:
    return (_stamp(path) if kept is not None and len(kept) == 4 else _content(path)) == kept


def _stamp(path: Path) -> Stamp | None:
    """What changes with a file, whatever a command does to its times."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(path: Path) -> Kept | Stamp | None:
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return mode, os.fsencode(path.readlink())
        content = file_start(path, MAX_KEPT_BYTES + 1) if stat.S_ISREG(mode) else None
        if content is None:
            return None
        return _stamp(path) if len(content) > MAX_KEPT_BYTES else (mode, content)
    except OSError:
        return None


def _shown(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)

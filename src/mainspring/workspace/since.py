"""What changed in a workspace since a moment, as one sentence: files by their times, HEAD by the log of git.

A look, not a comparison: bounded in time, so a large workspace is told as "at least". Deleted files are not
seen. Nothing of it is relied upon; the time machine notices what calls change.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from mainspring.disk.scan import Scan, walk
from mainspring.disk.untrusted import open_untrusted, read_start
from mainspring.events.counts import plural
from mainspring.patterns import lazy_pattern
from mainspring.secrets.screen import plain_name
from mainspring.workspace.instructions import repository_root
from mainspring.workspace.tree import HEAVY_NAMES

_MAX_LOOK_S = 0.15
_MAX_NAMED = 5
_MAX_LOG_BYTES = 64 * 1024
_NAME_CHARS = 80
_ID_CHARS = 9
_OBJECT = lazy_pattern(r"[0-9a-f]{40,64}")


class _Found(msgspec.Struct):
    count: int = 0
    names: list[str] = []
    is_cut: bool = False


def changes_since(workspace: Path, time_us: int, scan: Scan) -> str:
    """What changed, for a person and for a model; the root of the disk is not looked through."""
    if workspace == workspace.parent:
        return ""
    found, head = _files(workspace, time_us, scan), _head(workspace, time_us)
    if not found.count and not head:
        return "No change of its files was found." if not found.is_cut else "Not all files were looked at."
    rest = found.count - len(found.names)
    named = ", ".join([*found.names, *([f"{rest} more"] if rest and found.names else [])])
    least = "at least " if found.is_cut else ""
    files = f"{least}{plural(found.count, 'file')} changed" if found.count else ""
    files += f" ({named})" if named else ""
    return f"Since then {' and '.join(filter(None, (files, head)))}."


def _files(workspace: Path, time_us: int, scan: Scan) -> _Found:
    found = _Found(names=[])
    end = time.monotonic() + _MAX_LOOK_S

    def is_over() -> bool:
        found.is_cut = time.monotonic() > end
        return found.is_cut

    def enter(folder: str) -> Iterable[str]:
        try:
            listing = scan.read_path(folder)
        except OSError:
            return
        for name in sorted(listing.names - listing.folders):
            _note_file(found, workspace, Path(folder, name), time_us)
        for name in listing.folders - HEAVY_NAMES:
            yield os.path.join(folder, name)  # noqa: PTH118 - a scan names folders by text

    walk([str(workspace)], enter, is_over=is_over)
    return found


def _note_file(found: _Found, workspace: Path, path: Path, time_us: int) -> None:
    try:
        status = path.lstat()
    except OSError:
        return
    if stat.S_ISREG(status.st_mode) and status.st_mtime_ns > time_us * 1000:
        found.count += 1
        name = str(path.relative_to(workspace))
        if len(found.names) < _MAX_NAMED and not name.startswith("."):
            found.names.append(plain_name(name)[:_NAME_CHARS])


def _head(workspace: Path, time_us: int) -> str:
    """From where to where HEAD moved, as the repository's own log says."""
    moves = [line.split(" ", 2) for line in _head_log(workspace) if _moved_us(line) > time_us]
    if not moves or moves[0][0] == moves[-1][1]:
        return ""
    return f"git HEAD moved from {moves[0][0][:_ID_CHARS]} to {moves[-1][1][:_ID_CHARS]}"


def _head_log(workspace: Path) -> list[str]:
    git = repository_root(workspace) / ".git"
    try:
        if git.is_file():  # of a worktree
            named = read_start(git, max_bytes=4096).decode("utf-8", "replace")
            git = git.parent / named.removeprefix("gitdir:").strip()
        with open_untrusted(git / "logs" / "HEAD") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _MAX_LOG_BYTES, 0))
            return file.read(_MAX_LOG_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _moved_us(line: str) -> int:
    """When: `OLD NEW NAME <MAIL> SECONDS ZONE`, a tab, and why."""
    words = line.partition("\t")[0].split(" ")
    is_move = len(words) > 3 and words[-2].isdecimal() and all(map(_OBJECT.fullmatch, words[:2]))
    return int(words[-2]) * 1_000_000 if is_move else 0

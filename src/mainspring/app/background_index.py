"""Makes the index of a repository, or brings it up to date, beside a session that somebody at a terminal
begins: in a process of its own that steps back for others and stops after a while. The next one goes on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mainspring.disk.files import make_file, make_folder
from mainspring.index import index_file
from mainspring.sandbox.detached import start_detached
from mainspring.settings import Config
from mainspring.tools.primer import SMALL_PROJECT
from mainspring.workspace.instructions import repository_root

MAX_S = 300
_AGAIN_S = 3600.0
_NICE = 10


def begin_index(place: Path, config: Config) -> bool:
    """Whether one was started: for a git repository of more than a few files, at most once an hour. Left out
    are worktrees, which come and go, a repository around the home folder, and sessions that nobody sits at:
    the daemon keeps what its own work in."""
    if config.settings.work.index == "off" or not config.is_attended:
        return False
    root, home = repository_root(place.resolve()), Path(config.variable("HOME") or "/").resolve()
    if not (root / ".git").is_dir() or home.is_relative_to(root):
        return False
    begun = index_file(config.home, root).with_suffix(".begun")
    if _age_s(begun) < _AGAIN_S or not _is_large(root):
        return False
    make_folder(begun.parent)
    begun.unlink(missing_ok=True)
    make_file(begun)
    limit = ["--max-seconds", str(MAX_S)]
    pid = start_detached(["index", "-C", str(root), *limit], environment=config.environment, log=begun)
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
    threading.Thread(target=_reap, args=(pid,), name="index", daemon=True).start()
    return True


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")


def _is_large(root: Path) -> bool:
    """Looks no further than it takes to know."""
    files = _files(root)
    return any(True for count, _ in enumerate(files, 1) if count > SMALL_PROJECT)


def _files(root: Path) -> Iterator[str]:
    folders = [os.fspath(root)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield entry.path

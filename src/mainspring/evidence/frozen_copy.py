"""A copy of the workspace in which the files that decide are what they were when the goal was set.

An evaluation or a check runs in it when the agent changed such a file, so that cheating changes nothing. The
copy lies beside the workspace and goes when the run is over. Dependencies and large files are linked instead
of copied; caches and repositories are left out. A workspace that is too large, or one of whose frozen files
was not kept, has no copy.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainspring.disk.files import make_folder
from mainspring.disk.scratch import ScratchFolder
from mainspring.errors import PathRefused
from mainspring.events import Blob, FrozenFile
from mainspring.sandbox.files import Files
from mainspring.workspace import Keep
from mainspring.workspace.tree import HEAVY_NAMES

Fetch = Callable[[str], Awaitable[bytes | None]]
"""The content that was kept under a hash; None when it was not."""

MAX_KEPT_BYTES = 20_000_000
MAX_COPIED_BYTES = 1_000_000_000
_MAX_KEPT = 500
_MAX_FILES = 20_000
_LARGE_BYTES = 50_000_000
_LINKED = frozenset({"node_modules", "bower_components", ".venv", ".tox", ".nox"})


async def kept_contents(wanted: Sequence[FrozenFile], files: Files, keep: Keep) -> tuple[Blob, ...]:
    """Keeps what the frozen files hold, as far as they still are what was frozen and hold no secret."""
    kept: list[Blob] = []
    left = MAX_KEPT_BYTES
    for frozen in wanted[:_MAX_KEPT]:
        try:
            data = (await asyncio.to_thread(files.read, frozen.path, max_bytes=left + 1)).data
        except (OSError, PathRefused):
            continue
        if len(data) <= left and hashlib.sha256(data).hexdigest() == frozen.sha256:
            left -= len(data)
            blob = await keep(data, "text/plain")  # without secrets, and then not kept
            kept += [blob] if blob.sha256 == frozen.sha256 else []
    return tuple(kept)


@asynccontextmanager
async def frozen_copy(
    files: Files, before: Iterable[FrozenFile], now: Iterable[FrozenFile], fetch: Fetch
) -> AsyncGenerator[Files | None]:
    """The workspace as `now`, with the frozen files as `before`; None when there can be no such copy."""
    contents: dict[str, bytes | None] = {frozen.path: None for frozen in now}
    for frozen in before:
        contents[frozen.path] = await fetch(frozen.sha256) if frozen.sha256 else None
        if frozen.sha256 and contents[frozen.path] is None:
            yield None
            return
    async with copy_with(files, contents) as copy:
        yield copy


@asynccontextmanager
async def copy_with(files: Files, contents: Mapping[str, bytes | None]) -> AsyncGenerator[Files | None]:
    """The workspace with these files as given, None for one that is not there; None when it is too large."""
    scratch = await asyncio.to_thread(ScratchFolder)
    try:
        copy = Path(await asyncio.to_thread(os.path.realpath, scratch.path)) / "workspace"
        is_made = await asyncio.to_thread(_made, files, copy, contents)
        yield Files(msgspec.structs.replace(files.policy, workspace=copy)) if is_made else None
    finally:
        await asyncio.to_thread(scratch.close)


def _made(files: Files, copy: Path, contents: Mapping[str, bytes | None]) -> bool:
    try:
        if not _copied(files, copy):
            return False
        for path, data in contents.items():
            _put(copy, path, data)
    except OSError:
        return False
    return True


def _put(copy: Path, path: str, data: bytes | None) -> None:
    """Puts one frozen file where it was; nothing is written through a link."""
    place = copy / path
    if not Path(os.path.realpath(place.parent)).is_relative_to(copy):
        raise PermissionError(path)
    mode = place.stat().st_mode if place.exists() else 0o755
    place.unlink(missing_ok=True)
    if data is not None:
        make_folder(place.parent)
        place.write_bytes(data)
        place.chmod(stat.S_IMODE(mode))


def _copied(files: Files, copy: Path) -> bool:
    """Whether all of the workspace that a command may read was small enough to be copied."""
    root, policy = files.policy.workspace, files.policy
    count = size = 0
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        there = copy / here.relative_to(root)
        make_folder(there)
        for name in folders:
            if (here / name).is_symlink() or name in _LINKED or (here / name / "pyvenv.cfg").is_file():
                (there / name).symlink_to(os.path.realpath(here / name))
        folders[:] = [name for name in folders if name not in HEAVY_NAMES and not (there / name).is_symlink()]
        for name in names:
            source = here / name
            if policy.refuses_read(source) or not source.is_file():
                continue
            length = source.stat().st_size
            count, size = count + 1, size + (length if length <= _LARGE_BYTES else 0)
            if count > _MAX_FILES or size > MAX_COPIED_BYTES:
                return False
            if source.is_symlink() or length > _LARGE_BYTES:
                (there / name).symlink_to(_target(source, root, copy))
            else:
                shutil.copy2(source, there / name)
    return True


def _target(source: Path, root: Path, copy: Path) -> Path:
    """Where a link in the copy leads: to the copy of what lies in the workspace, else where it led."""
    real = Path(os.path.realpath(source))
    is_inside = source.is_symlink() and real.is_relative_to(root)
    return copy / real.relative_to(root) if is_inside else real

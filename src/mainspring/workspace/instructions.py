"""Finds what people wrote down for agents: `AGENTS.md`, and `CLAUDE.md` or `GEMINI.md` where there is none.

The user's own come first, then those from the repository's root down to the workspace; deeper ones are found
when a file under them is touched. A project's file that lies outside it, behind a link, is not followed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.disk.untrusted import read_start
from mainspring.patterns import lazy_pattern

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
MAX_BYTES = 16 * 1024
_MAX_FILES = 12
_MAX_WORDS = 100
_WORD = lazy_pattern(r"""[^\s;&|<>()=`"']+""")
_GOING = frozenset({"cd", "pushd", "-C"})


class Instructions(msgspec.Struct, frozen=True):
    """The text of one file; `folder` is what it holds for. With a `problem` the file could not be read."""

    path: Path
    folder: Path
    text: str
    is_cut: bool = False
    problem: str = ""


def repository_root(workspace: Path) -> Path:
    """The nearest folder above that is a repository, or else the workspace itself."""
    for folder in (workspace, *workspace.parents):
        if (folder / ".git").exists():
            return folder
    return workspace


def find_instructions(workspace: Path, user_folder: Path) -> list[Instructions]:
    """What holds for the whole workspace, the most general first."""
    root = repository_root(workspace)
    folders = [workspace, *workspace.parents][: len(workspace.parts) - len(root.parts) + 1]
    found = [_read(user_folder, None), *(_read(folder, root) for folder in reversed(folders))]
    return [item for item in found if item is not None][:_MAX_FILES]


class NestedInstructions:
    """What holds only for a part of a workspace; each folder is looked at once."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._known: dict[Path, Instructions | None] = {}

    def for_file(self, path: str) -> list[Instructions]:
        """The instructions of the folders between the workspace and a file, the nearest last."""
        return self._down_to((self._workspace / path).parent)

    def for_command(self, command: str) -> list[Instructions]:
        """The instructions of the folders that a command line names, goes to, or names files in."""
        at, before = self._workspace, ""
        found: dict[Path, Instructions] = {}
        for word in _WORD.findall(command)[:_MAX_WORDS]:
            place = at / word
            is_folder = _is_folder(place)
            found |= {item.folder: item for item in self._down_to(place if is_folder else place.parent)}
            at = place if is_folder and before in _GOING else at
            before = word
        return list(found.values())

    def _down_to(self, place: Path) -> list[Instructions]:
        try:
            below = place.resolve().relative_to(self._workspace)
        except (ValueError, OSError, RuntimeError):
            return []
        found: list[Instructions] = []
        folder = self._workspace
        for part in below.parts:
            folder /= part
            if folder not in self._known:
                self._known[folder] = _read(folder, self._workspace)
            if item := self._known[folder]:
                found.append(item)
        return found


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _read(folder: Path, root: Path | None) -> Instructions | None:
    unreadable: Instructions | None = None
    for name in NAMES:
        path = folder / name
        try:
            data = read_start(path, max_bytes=MAX_BYTES + 1, root=root)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unreadable = unreadable or Instructions(path, folder, "", problem=error.strerror or str(error))
            continue
        text = data[:MAX_BYTES].decode("utf-8", "replace").strip()
        if text:
            return Instructions(path, folder, text, is_cut=len(data) > MAX_BYTES)
    return unreadable

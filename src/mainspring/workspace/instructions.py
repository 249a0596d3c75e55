"""Finds what people wrote down for agents: `AGENTS.md`, and `CLAUDE.md` or `GEMINI.md` where there is none.

The user's own come first, then those from the repository's root down to the workspace; deeper ones are found
when a file under them is touched. A file that lies elsewhere, behind a symbolic link, is not followed.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
MAX_BYTES = 16 * 1024
_MAX_FILES = 12
_MAX_WORDS = 100
_WORD = re.compile(r"""[^\s;&|<>()=`"']+""")
_GOING = frozenset({"cd", "pushd", "-C"})


class Instructions(msgspec.Struct, frozen=True):
    """The text of one file; `folder` is what it holds for."""

    path: Path
    folder: Path
    text: str
    is_cut: bool = False


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
    found = [_read(user_folder, user_folder), *(_read(folder, root) for folder in reversed(folders))]
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


def _read(folder: Path, root: Path) -> Instructions | None:
    for name in NAMES:
        path = folder / name
        try:
            if not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
                continue
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            continue  # what cannot be read does not instruct
        text = data[:MAX_BYTES].decode("utf-8", "replace").strip()
        if text:
            return Instructions(path, folder, text, is_cut=len(data) > MAX_BYTES)
    return None

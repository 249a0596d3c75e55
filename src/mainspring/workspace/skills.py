"""Finds skills: folders with a `SKILL.md` in the format of the Agent Skills specification.

Only name and description are read here; an agent reads the rest when it needs it. A skill without a valid
head is left out and told, so that its author learns why it is not seen.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from mainspring.disk.untrusted import read_start
from mainspring.patterns import lazy_pattern

_FILE = "SKILL.md"
_MAX_HEAD = 16 * 1024
_MAX_NAME = 64
_MAX_DESCRIPTION = 1024
_MAX_SKILLS = 100
_MAX_FOLDERS = 2000
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
_FIELD = lazy_pattern(r"^([A-Za-z][\w-]*):(?:\s+(.*))?$")
_BLOCK = lazy_pattern(r"^[|>][+-]?$")


class Skill(msgspec.Struct, frozen=True, omit_defaults=True):
    """`is_ours`: it comes with mainspring, for a kind of project."""

    name: str
    description: str
    path: Path
    is_ours: bool = False


class Broken(msgspec.Struct, frozen=True, omit_defaults=True):
    """A skill that cannot be used, and why."""

    path: Path
    problem: str
    is_unreadable: bool = False


def find_skills(*folders: Path, root: Path | None = None) -> tuple[list[Skill], list[Broken]]:
    """The skills under these folders, sorted by name. Of two with one name the one found first is taken. What
    lies below `root` must not lead out of it."""
    skills: dict[str, Skill] = {}
    broken: list[Broken] = []
    for folder in folders:
        for path in _files(folder):
            found = read_skill(path, root)
            if isinstance(found, Broken):
                broken.append(found)
            elif found.name in skills:
                broken.append(Broken(path, f"there is another skill named {found.name}"))
            else:
                skills[found.name] = found
    return sorted(skills.values(), key=lambda skill: skill.name)[:_MAX_SKILLS], broken


def read_skill(path: Path, root: Path | None = None) -> Skill | Broken:
    try:
        text = read_start(path, max_bytes=_MAX_HEAD, root=root).decode("utf-8", "replace")
    except OSError as error:
        return Broken(path, error.strerror or str(error), is_unreadable=True)
    head = frontmatter(text)
    if head is None:
        return Broken(path, "it does not begin with a head between two lines of ---")
    name = unicodedata.normalize("NFKC", head.get("name", "").strip())
    description = " ".join(head.get("description", "").split())
    problem = _problem(name, description, path.parent.name)
    return Broken(path, problem) if problem else Skill(name, description, path)


def read_whole(path: Path, root: Path | None, *, max_bytes: int) -> str | Broken:
    """The text of a file that somebody wrote for agents, or why it cannot be used."""
    try:
        data = read_start(path, max_bytes=max_bytes + 1, root=root)
    except OSError as error:
        return Broken(path, error.strerror or str(error), is_unreadable=True)
    if len(data) > max_bytes:
        return Broken(path, f"it has more than {max_bytes // 1024} KiB")
    return data.decode("utf-8", "replace")


def frontmatter(text: str) -> dict[str, str] | None:
    """The top-level texts of a head: plain, quoted and block values. Nested values are skipped."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return None
    values: dict[str, str] = {}
    name, block = "", list[str]()
    for line in lines[1:]:
        if line.rstrip() == "---":
            return values
        if line[:1] in (" ", "\t") or not line.strip():
            block.append(line.strip())
            if name:
                values[name] = " ".join(filter(None, block))
            continue
        found = _FIELD.match(line)
        name = found[1] if found else ""
        value = (found[2] or "").strip() if found else ""
        block = [] if _BLOCK.match(value) or not value else [_plain(value)]
        if name:
            values[name] = " ".join(block)
    return None


def _plain(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return value.partition(" #")[0].rstrip()


def _problem(name: str, description: str, folder: str) -> str:
    if not name or not description:
        return "its head needs a name and a description"
    if len(name) > _MAX_NAME or len(description) > _MAX_DESCRIPTION:
        return f"a name has at most {_MAX_NAME} characters, a description {_MAX_DESCRIPTION}"
    is_formed = all(letter.isalnum() or letter == "-" for letter in name) and name == name.lower()
    if not is_formed or name.startswith("-") or name.endswith("-") or "--" in name:
        return f"the name {name!r} may have lower-case letters, digits and single hyphens"
    if unicodedata.normalize("NFKC", folder) != name:
        return f"its folder is named {folder}, not {name}"
    return ""


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, files in islice(os.walk(folder), _MAX_FOLDERS):
        folders[:] = sorted(set(folders) - _SKIPPED)
        if _FILE in files:
            yield Path(where) / _FILE
            folders.clear()

"""Programs that look at the files of a project, linters and language servers alike: whether the project uses
one, where it is installed, and whether it is code of the project, which runs only when a person approved it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from mainspring.disk.formats import parse_toml
from mainspring.disk.untrusted import open_untrusted, read_start

if TYPE_CHECKING:
    from mainspring.approvals.trust import TrustKind, TrustSubject

_MAX_CONFIG = 256 * 1024
_MAX_SAID = 200
_MAX_FOLDERS, _MAX_DEPTH = 2_000, 4
_HEAVY = ("node_modules", "venv", "build", "dist", "target", "vendor", "__pycache__")
_OWN_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin")


class ProgramFacts(Protocol):
    """`marks` are files of the project, or tables of its `pyproject.toml` (`tool.ruff`), of which one must be
    there. `runs` are files that the program runs where the project has them; `is_settings_code` says that it
    runs what its settings say."""

    @property
    def name(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def suffixes(self) -> tuple[str, ...]: ...
    @property
    def marks(self) -> tuple[str, ...]: ...
    @property
    def runs(self) -> tuple[str, ...]: ...
    @property
    def is_settings_code(self) -> bool: ...


F = TypeVar("F", bound=ProgramFacts)


class Configured(NamedTuple, Generic[F]):
    """A program that a file in a folder of the project configures, for the files below that folder, and where
    it is if it is installed: in the environment of that folder or one above, or on the PATH."""

    facts: F
    folder: str
    config: Path
    program: Path | None


def configured(
    rows: Iterable[F], workspace: Path, environment: Mapping[str, str], folders: Iterable[str] = ("",)
) -> Iterator[Configured[F]]:
    """The programs that files in these folders configure."""
    known = {folder: _tables(workspace / folder, workspace) for folder in folders}
    for facts in rows:
        for folder, tables in known.items():
            if config := _config(facts, workspace / folder, tables):
                yield Configured(
                    facts, folder, config, _program(facts.program, workspace, folder, environment)
                )


def folders_of(paths: Iterable[str]) -> list[str]:
    """The folders of these files of the workspace and all above them, the workspace first."""
    inside = [
        PurePosixPath(path) for path in paths if not path.startswith("/") and ".." not in path.split("/")
    ]
    return sorted({"", *(str(each) for path in inside for each in path.parents if str(each) != ".")})


def folders_below(workspace: Path) -> list[str]:
    """The workspace and the folders in which its packages may have settings of their own."""
    found, waiting = [""], [("", 0)]
    while waiting and len(found) < _MAX_FOLDERS:
        folder, depth = waiting.pop(0)
        try:
            below = sorted(
                each.name for each in os.scandir(workspace / folder) if each.is_dir(follow_symlinks=False)
            )
        except OSError:
            continue
        named = [name for name in below if name not in _HEAVY and not name.startswith(".")]
        new = [f"{folder}/{name}".lstrip("/") for name in named]
        found += new
        waiting += [(each, depth + 1) for each in new if depth + 1 < _MAX_DEPTH]
    return found[:_MAX_FOLDERS]


def settings_folder(facts: ProgramFacts, workspace: Path, path: str) -> str | None:
    """The nearest folder around a file that configures a program."""
    for folder in reversed(folders_of([path])):
        if path.startswith(f"{folder}/" if folder else "") and _config(
            facts, workspace / folder, _tables(workspace / folder, workspace)
        ):
            return folder
    return None


def subject_of(
    kind: TrustKind, facts: ProgramFacts, program: Path, config: Path, workspace: Path, folder: str = ""
) -> TrustSubject | None:
    """What a person must approve before it runs; None where nothing of it is code of the project."""
    places = [workspace / each for each in folders_of([f"{folder}/x".lstrip("/")])]
    run = [path for name in facts.runs for place in places if (path := place / name).exists()]
    is_projects = any(path.is_relative_to(workspace) for path in (program, program.resolve()))
    if not (facts.is_settings_code or is_projects or run):
        return None
    lines = [f"{path} (sha256 {_hash(path)})" for path in (program, *run)]
    text = "\n".join((*lines, _text(config, workspace)))
    make: type[TrustSubject] = import_module("mainspring.approvals.trust").TrustSubject
    return make(kind=kind, path=str(config), name=facts.name, text=text)


def subjects(
    kind: TrustKind, rows: Iterable[ProgramFacts], workspace: Path, environment: Mapping[str, str]
) -> list[TrustSubject]:
    """What a person must approve before such programs of a project run."""
    found = [
        subject_of(kind, each.facts, each.program, each.config, workspace, each.folder)
        for each in configured(rows, workspace, environment, folders_below(workspace))
        if each.program
    ]
    return [subject for subject in found if subject]


def last_line(said: bytes) -> str:
    """How a program that failed ended what it said."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:_MAX_SAID] if lines else "it failed without a word"


def _config(facts: ProgramFacts, place: Path, tables: dict[str, Any]) -> Path | None:
    for mark in facts.marks:
        if mark.startswith("tool."):
            if _has_table(tables, mark):
                return place / "pyproject.toml"
        elif (place / mark).is_file():
            return place / mark
    return None


def _tables(place: Path, workspace: Path) -> dict[str, Any]:
    """What `pyproject.toml` says; nothing when there is none that can be read."""
    text = _text(place / "pyproject.toml", workspace)
    if "tool" not in text:
        return {}
    try:
        return parse_toml(text)
    except ValueError:
        return {}


def _has_table(tables: dict[str, Any], name: str) -> bool:
    *above, last = name.split(".")
    for part in above:
        tables = tables.get(part) or {}
    return last in tables


def _program(name: str, workspace: Path, folder: str, environment: Mapping[str, str]) -> Path | None:
    for place in reversed(folders_of([f"{folder}/x".lstrip("/")])):
        for own in _OWN_FOLDERS:
            path = workspace / place / own / name
            if path.is_file() and os.access(path, os.X_OK):
                return path
    found = import_module("shutil").which(name, path=environment.get("PATH", os.defpath))
    return Path(found) if found else None


def _hash(program: Path) -> str:
    try:
        status = program.stat()
        return _content_hash(program, status.st_ino, status.st_size, status.st_ctime_ns)
    except OSError:
        return "unreadable"


@lru_cache(maxsize=64)
def _content_hash(program: Path, _inode: int, _size: int, _ctime_ns: int) -> str:
    """Of a program that is looked at after every step and may be large; read again if its status changed."""
    with open_untrusted(program) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(path: Path, workspace: Path) -> str:
    try:
        return read_start(path, max_bytes=_MAX_CONFIG, root=workspace).decode("utf-8", "replace")
    except OSError:
        return ""

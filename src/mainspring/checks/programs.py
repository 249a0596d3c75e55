"""Programs that look at the files of a project, linters and language servers alike: whether the project uses
one, where it is installed, and whether it is code of the project, which runs only when a person approved it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mainspring.approvals.trust import TrustKind, TrustSubject
from mainspring.disk.untrusted import open_untrusted, read_start
from mainspring.sandbox.programs import project_of

_MAX_CONFIG = 256 * 1024
_MAX_SAID = 200
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


def configured(
    rows: Iterable[F], workspace: Path, environment: Mapping[str, str]
) -> Iterator[tuple[F, Path, Path | None]]:
    """Each program that a file of the project configures, with that file, and where it is if it is
    installed: in the project's own environment or on the PATH."""
    tables = _tables(workspace)
    for facts in rows:
        if config := _config(facts, workspace, tables):
            yield facts, config, _program(facts.program, workspace, environment)


def subject_of(
    kind: TrustKind, facts: ProgramFacts, program: Path, config: Path, workspace: Path
) -> TrustSubject | None:
    """What a person must approve before it runs; None where nothing of it is code of the project."""
    run = [path for name in facts.runs if (path := workspace / name).exists()]
    is_projects = any(path.is_relative_to(workspace) for path in (program, program.resolve()))
    if not (facts.is_settings_code or is_projects or run):
        return None
    lines = [f"{path} (sha256 {_hash(path)})" for path in (program, *run)]
    text = "\n".join((*lines, _text(config, workspace)))
    return TrustSubject(kind=kind, path=str(config), name=facts.name, text=text)


def subjects(
    kind: TrustKind, rows: Iterable[ProgramFacts], workspace: Path, environment: Mapping[str, str]
) -> list[TrustSubject]:
    """What a person must approve before such programs of a project run."""
    found = [
        subject_of(kind, facts, program, config, workspace)
        for facts, config, program in configured(rows, workspace, environment)
        if program
    ]
    return [subject for subject in found if subject]


def folders_of(program: Path, workspace: Path) -> tuple[Path, ...]:
    """Where a program lies with what belongs to it. What the workspace hides stays hidden."""
    found = {project_of(path) for path in (program, program.resolve())}
    return tuple(sorted(path for path in found if not workspace.is_relative_to(path)))


def last_line(said: bytes) -> str:
    """How a program that failed ended what it said."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:_MAX_SAID] if lines else "it failed without a word"


def _config(facts: ProgramFacts, workspace: Path, tables: dict[str, Any]) -> Path | None:
    for mark in facts.marks:
        if mark.startswith("tool."):
            if _has_table(tables, mark):
                return workspace / "pyproject.toml"
        elif (workspace / mark).is_file():
            return workspace / mark
    return None


def _tables(workspace: Path) -> dict[str, Any]:
    """What `pyproject.toml` says; nothing when there is none that can be read."""
    text = _text(workspace / "pyproject.toml", workspace)
    if "tool" not in text:
        return {}
    tomllib = import_module("tomllib")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _has_table(tables: dict[str, Any], name: str) -> bool:
    *above, last = name.split(".")
    for part in above:
        tables = tables.get(part) or {}
    return last in tables


def _program(name: str, workspace: Path, environment: Mapping[str, str]) -> Path | None:
    for folder in _OWN_FOLDERS:
        path = workspace / folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
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

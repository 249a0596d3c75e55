"""What a repository holds, kept so that it is found without reading it again: symbols, uses, imports, and the
text of documents. A cache in the data folder, made again from the files at any time; never in the workspace.

Nothing is resolved as a compiler would: whatever has the same name counts as the same.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from mainspring.errors import MainspringError

FOLDER = "code-index"


class IndexDamaged(MainspringError):
    """The file of an index was damaged, and has been removed."""


class IndexedSymbol(msgspec.Struct, frozen=True, kw_only=True):
    """A definition; `score` says how much of the repository uses it."""

    path: str
    name: str
    kind: str
    line: int
    end_line: int = 0
    parent: str = ""
    signature: str = ""
    doc: str = ""
    score: float = 0.0

    @property
    def full_name(self) -> str:
        return f"{self.parent}.{self.name}" if self.parent else self.name


class UsedAt(msgspec.Struct, frozen=True):
    """A file that uses a name, and the lines."""

    path: str
    lines: tuple[int, ...]


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text with where it begins: of a comment about a symbol, a section, a page, a sheet."""

    line: int
    title: str
    text: str
    path: str = ""


class ImportedAt(msgspec.Struct, frozen=True):
    line: int
    text: str


class IndexStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the index of a repository holds. `problems` says of how many files nothing is known but the name,
    by the reason; `left` files were not looked at yet when the last update ended."""

    root: str
    file: str
    files: int = 0
    code_files: int = 0
    symbols: int = 0
    passages: int = 0
    bytes: int = 0
    updated_us: int = 0
    is_cut: bool = False
    left: int = 0
    problems: dict[str, int] = {}


def index_file(home: Path, root: Path) -> Path:
    """Where the index of a repository lies."""
    return home / FOLDER / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}.sqlite"

"""What a person entered before, per project.

The lines lie in the data folder, closed to others; a file that is too long loses its oldest half.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from mainspring.disk.files import make_folder, write_private
from mainspring.disk.untrusted import read_untrusted
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.settings import Config
from mainspring.workspace.instructions import repository_root

_FOLDER = "entered"
_MAX_BYTES = 4 << 20
_MAX_LINES = 2000


def load_entered(config: Config, folder: Path) -> list[str]:
    """What was entered in this project, the oldest first."""
    try:
        data = read_untrusted(_file(config, folder), max_bytes=_MAX_BYTES)
    except OSError:
        return []
    return [text for line in data.splitlines() if (text := _decoded(line))]


def keep_entered(config: Config, folder: Path, text: str) -> None:
    """Keeps one more, unless it is the last one again."""
    known = load_entered(config, folder)
    if known[-1:] == [text]:
        return
    kept = [*known[-_MAX_LINES // 2 :], text] if len(known) >= _MAX_LINES else [*known, text]
    file = _file(config, folder)
    make_folder(file.parent)
    write_private(file, b"".join(msgspec.json.encode(each) + b"\n" for each in kept))


def _decoded(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=str)
    except DECODE_ERRORS:
        return ""


def _file(config: Config, folder: Path) -> Path:
    root = repository_root(folder.expanduser().resolve())
    return config.home / _FOLDER / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}.jsonl"

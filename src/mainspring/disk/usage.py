"""How much room files take."""

from __future__ import annotations

import os
from pathlib import Path


def bytes_in(path: Path) -> int:
    """The bytes of a file, or of all files in a folder; what cannot be read counts as nothing."""
    try:
        if not path.is_dir() or path.is_symlink():
            return path.lstat().st_size
        with os.scandir(path) as entries:
            return sum(_entry_bytes(entry) for entry in entries)
    except OSError:
        return 0


def _entry_bytes(entry: os.DirEntry[str]) -> int:
    if entry.is_dir(follow_symlinks=False):
        return bytes_in(Path(entry.path))
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def changed_s(path: Path) -> float:
    """When a file, or the newest thing directly in a folder, last changed; 0 when it is gone."""
    try:
        inside = [each.lstat().st_mtime for each in path.iterdir()] if path.is_dir() else []
        return max(path.lstat().st_mtime, *inside) if inside else path.lstat().st_mtime
    except OSError:
        return 0.0

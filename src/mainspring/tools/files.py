"""How the file tools reach files: inside the workspace, and with sentences for what goes wrong."""

from __future__ import annotations

from pathlib import Path

from mainspring.tools import Place


def described(module: Path) -> str:
    """What the model reads about a tool: the text beside its module."""
    return module.with_suffix(".md").read_text(encoding="utf-8").strip()


def read_file(place: Place, path: str) -> bytes:
    raise NotImplementedError


def write_file(place: Place, path: str, data: bytes) -> bool:
    raise NotImplementedError

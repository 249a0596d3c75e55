"""How the file tools reach files: under the sandbox's policy, with sentences for what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mainspring.errors import PathRefused
from mainspring.sandbox.files import Content, Version
from mainspring.tools import Place, ToolFailed

_MAX_BYTES = 64 * 1024 * 1024


def described(module: Path) -> str:
    """What the model reads about a tool: the text beside its module."""
    return module.with_suffix(".md").read_text(encoding="utf-8").strip()


async def read_file(place: Place, path: str) -> Content:
    with _explained(path):
        content = await asyncio.to_thread(place.files.read, path, max_bytes=_MAX_BYTES)
    if content.size > _MAX_BYTES:
        raise ToolFailed(f"{path} has {content.size:,} bytes, too much to read whole; use a command.")
    return content


async def write_file(place: Place, path: str, data: bytes, *, unchanged_since: Version | None = None) -> None:
    with _explained(path):
        await asyncio.to_thread(place.files.write, path, data, unchanged_since=unchanged_since)


@contextmanager
def _explained(path: str) -> Generator[None]:
    try:
        yield
    except PathRefused as error:
        raise ToolFailed(str(error)) from error
    except FileNotFoundError as error:
        raise ToolFailed(f"There is no file {path}.") from error
    except OSError as error:
        raise ToolFailed(f"{path}: {error.strerror}.") from error

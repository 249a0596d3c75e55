"""How the file tools reach files: under the sandbox's policy, remembering what was seen, with sentences for
what goes wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mainspring.errors import PathRefused
from mainspring.formats import kind_of
from mainspring.sandbox.files import Content, Version
from mainspring.tools import CallContext, ToolFailed
from mainspring.tools.text import Decoded, decode

_MAX_BYTES = 64 * 1024 * 1024


def described(module: Path) -> str:
    """What the model reads about a tool: the text beside its module."""
    return module.with_suffix(".md").read_text(encoding="utf-8").strip()


async def read_file(place: CallContext, path: str) -> Content:
    """The whole file, which counts as seen from now on."""
    content = await look_at(place, path)
    place.seen.add(content.path, content.version)
    return content


async def look_at(place: CallContext, path: str) -> Content:
    """The whole file, without counting as seen by the model."""
    with explained(path):
        content = await asyncio.to_thread(place.files.read, path, max_bytes=_MAX_BYTES)
    if content.size > _MAX_BYTES:
        raise ToolFailed(f"{path} has {content.size:,} bytes, too much to read whole; use a command.")
    return content


async def found_at(place: CallContext, path: str) -> Content | None:
    """What stands at this path, without its bytes; None when nothing does."""
    try:
        with explained(path):
            return await asyncio.to_thread(place.files.read, path, max_bytes=0)
    except ToolFailed as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


async def text_to_change(place: CallContext, path: str) -> tuple[Content, Decoded]:
    """A text file as it is now, which must be the one that was seen last."""
    content = await look_at(place, path)
    if place.seen.is_outdated(content):
        raise ToolFailed(f"{path} changed after you read it; nothing was changed. Read it again first.")
    decoded = decode(content.data)
    if decoded is None:
        with_what = "`document`, if find_tools has it, or " if kind_of(content.data) else ""
        raise ToolFailed(f"{path} is a binary file; change it with {with_what}a command.")
    return content, decoded


async def write_file(
    place: CallContext,
    path: str,
    data: bytes,
    *,
    unchanged_since: Version | None = None,
    mode: int | None = None,
) -> None:
    with explained(path):
        version = await asyncio.to_thread(
            place.files.write, path, data, unchanged_since=unchanged_since, mode=mode
        )
        place.seen.add(place.files.resolve(path), version)


async def remove_file(place: CallContext, path: str, *, unchanged_since: Version | None = None) -> None:
    with explained(path):
        await asyncio.to_thread(place.files.remove, path, unchanged_since=unchanged_since)
        place.seen.forget(place.files.resolve(path))


def encoded(decoded: Decoded, text: str, path: str) -> bytes:
    """The text in the file's own encoding."""
    try:
        return decoded.encode(text)
    except UnicodeEncodeError as error:
        sign = text[error.start]
        raise ToolFailed(
            f"{path} is encoded as {decoded.encoding}, which cannot hold {sign!r}; nothing was changed."
        ) from error


@contextmanager
def explained(path: str) -> Generator[None]:
    try:
        yield
    except PathRefused as error:
        raise ToolFailed(str(error)) from error
    except FileNotFoundError as error:
        raise ToolFailed(f"There is no file {path}.") from error
    except OSError as error:
        raise ToolFailed(f"{path}: {error.strerror}.") from error

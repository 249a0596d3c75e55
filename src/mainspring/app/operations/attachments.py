"""Files that a person shows to the model with what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainspring.disk.untrusted import read_untrusted
from mainspring.engines import builtin
from mainspring.errors import UsageError
from mainspring.events import Media
from mainspring.session.session import Session
from mainspring.tools.read import image_type

_MAX_BYTES = 20 * 1024 * 1024


class Attached(msgspec.Struct, frozen=True):
    name: str
    data: bytes
    media_type: str


async def keep(session: Session, files: Sequence[Attached]) -> tuple[Media, ...]:
    """Keeps the files in the journal, to be said."""
    if files and session.state.engine.engine not in ("", builtin.NAME):
        raise UsageError(
            "Files can be attached for the built-in engine only.",
            remedy="Write the file's path in the message.",
        )
    return tuple([await session.attach(file.data, file.media_type, file.name) for file in files])


def attached(path: Path) -> Attached:
    """A file of this machine, to be shown."""
    try:
        data = read_untrusted(path, max_bytes=_MAX_BYTES, root=Path())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", remedy="Check the path after --attach."
        ) from error
    return attachment(str(path), data)


def attachment(name: str, data: bytes) -> Attached:
    """Content as what it is: an image, a PDF or text."""
    if len(data) > _MAX_BYTES:
        raise UsageError(
            f"{name} has {len(data):,} bytes; attachments may have {_MAX_BYTES:,} at most.",
            remedy="Attach a part of it, or write its path in the message and let the model read it.",
        )
    kind = image_type(data) or ("application/pdf" if data.startswith(b"%PDF-") else "")
    return Attached(Path(name).name, data, kind or _text_type(name, data))


def _text_type(name: str, data: bytes) -> str:
    try:
        is_text = "\0" not in data.decode()
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        raise UsageError(
            f"{name} is neither an image (PNG, JPEG, GIF, WebP), a PDF nor text in UTF-8.",
            remedy="Convert it, or name its path and let the model work on it with a command.",
        )
    return "text/plain"

"""What a client's prompt says: its text, and the images and files that come with it."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from acp import schema

from mainspring.app.operations.attachments import Attached, attachment
from mainspring.errors import UsageError


class PromptContent(msgspec.Struct, frozen=True):
    """`links` are files that the person pointed to."""

    text: str
    files: tuple[Attached, ...] = ()
    links: tuple[Path, ...] = ()


def prompt_content(blocks: Sequence[Any], workspace: Path) -> PromptContent:
    """Raises `UsageError` for what cannot be shown to a model."""
    texts: list[str] = []
    files: list[Attached] = []
    links: list[Path] = []
    for number, block in enumerate(blocks, 1):
        match block:
            case schema.TextContentBlock():
                texts.append(block.text)
            case schema.ImageContentBlock():
                kind = block.mime_type.partition("/")[2] or "image"
                files.append(attachment(_name_of(block.uri) or f"image{number}.{kind}", _bytes(block.data)))
            case schema.ResourceContentBlock():
                path = file_of(block.uri)
                texts.append(f"@{_shown(path, workspace)}" if path else f"{block.name} ({block.uri})")
                links += [path] if path else []
            case schema.EmbeddedResourceContentBlock():
                path = file_of(block.resource.uri)
                shown = _shown(path, workspace) if path else block.resource.uri
                texts.append(f"@{shown}")
                files.append(_embedded(block.resource, shown))
            case _:
                raise UsageError(
                    f"The prompt has content of the type {block.type}, which models are not sent.",
                    remedy="Send text, images, resource links or embedded resources.",
                )
    return PromptContent("".join(_spaced(texts)), tuple(files), tuple(links))


def file_of(uri: str) -> Path | None:
    """The file that a URI names; None when it names something else."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.path.startswith("/") else None


def _embedded(resource: schema.TextResourceContents | schema.BlobResourceContents, name: str) -> Attached:
    if isinstance(resource, schema.TextResourceContents):
        return Attached(name, resource.text.encode(errors="replace"), "text/plain")
    return attachment(name, _bytes(resource.blob))


def _bytes(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except binascii.Error as error:
        raise UsageError(f"The prompt has content that is not base64: {error}.") from error


def _name_of(uri: str | None) -> str:
    return Path(unquote(urlsplit(uri or "").path)).name


def _shown(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)


def _spaced(texts: Sequence[str]) -> list[str]:
    """The texts with a space between two that would run together."""
    spaced: list[str] = []
    for text in texts:
        needs = bool(spaced and spaced[-1] and text) and not (spaced[-1][-1].isspace() or text[0].isspace())
        spaced.append(f" {text}" if needs else text)
    return spaced

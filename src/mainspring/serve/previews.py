"""Kept outputs as the page shows them: a picture, a table, a notebook, text. Nothing in them becomes code.

A picture goes to an `img` element, in which a browser runs nothing; everything else is text or a tree of
known nodes. Of a PDF there are pictures of its first pages: the page embeds no foreign document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec

from mainspring.app.operations.pdf_pages import PdfPages, draw_pdf
from mainspring.documents.previews import preview_of
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.evidence.kept import KeptVersion
from mainspring.serve.markdown_tree import Node, tree_of
from mainspring.settings import Config

_MAX_PICTURE, _MAX_TEXT, _MAX_ROWS, _MAX_CELLS = 4_000_000, 100_000, 200, 200
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")


class PreviewBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to show, by its kind."""

    kind: Literal["text", "code", "markdown", "picture", "table"]
    text: str = ""
    tree: list[Node] = []
    media_type: str = ""
    data: bytes = b""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    more: int = 0


class ArtifactPreview(msgspec.Struct, frozen=True, kw_only=True):
    """Without blocks there is nothing to show, for the reason `why_not`, and it can be downloaded."""

    version: KeptVersion
    blocks: tuple[PreviewBlock, ...] = ()
    why_not: str = ""


async def artifact_preview(config: Config, version: KeptVersion, data: bytes) -> ArtifactPreview:
    if version.blob.media_type == "application/pdf":
        pages = await draw_pdf(config, data)
        return ArtifactPreview(version=version, blocks=tuple(_pages(pages)), why_not=pages.why_not)
    return ArtifactPreview(version=version, blocks=tuple(_blocks(version.blob.media_type, data)))


def _blocks(media_type: str, data: bytes) -> Iterator[PreviewBlock]:
    if media_type in _PICTURES:
        if len(data) <= _MAX_PICTURE:
            yield PreviewBlock(kind="picture", media_type=media_type, data=data)
    elif media_type == "text/csv" and (table := preview_of(data, media_type, _MAX_ROWS)):
        yield PreviewBlock(kind="table", head=table.head, rows=table.rows, more=table.more_rows)
    elif media_type == "text/markdown":
        yield PreviewBlock(kind="markdown", tree=tree_of(data.decode("utf-8", "replace")))
    elif media_type == "application/x-ipynb+json":
        yield from _notebook(data)
    elif media_type.endswith("json"):
        yield _text(_indented(data))
    elif media_type.startswith("text/") or media_type.endswith("xml"):
        yield _text(data)


def _pages(pages: PdfPages) -> Iterator[PreviewBlock]:
    for number, picture in enumerate(pages.pictures, 1):
        is_last = number == len(pages.pictures)
        yield PreviewBlock(
            kind="picture",
            media_type="image/png",
            data=picture,
            text=f"page {number} of {pages.count}",
            more=pages.count - number if is_last else 0,
        )


def _text(data: bytes) -> PreviewBlock:
    text = data.decode("utf-8", "replace")
    return PreviewBlock(kind="text", text=text[:_MAX_TEXT], more=max(len(text) - _MAX_TEXT, 0))


def _indented(data: bytes) -> bytes:
    try:
        return msgspec.json.format(data, indent=2)
    except DECODE_ERRORS:
        return data


def _notebook(data: bytes) -> Iterator[PreviewBlock]:
    try:
        cells = _dicts(msgspec.json.decode(data, type=dict[str, Any]).get("cells"))
    except DECODE_ERRORS:
        cells = []
    if not cells:
        yield _text(data)
    for cell in cells[:_MAX_CELLS]:
        source = _joined(cell.get("source"))
        if cell.get("cell_type") == "markdown":
            yield PreviewBlock(kind="markdown", tree=tree_of(source))
        elif source:
            yield PreviewBlock(kind="code", text=source[:_MAX_TEXT])
        for output in _dicts(cell.get("outputs")):
            yield from _output(output)


def _output(output: dict[str, Any]) -> Iterator[PreviewBlock]:
    found = output.get("data")
    data = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    picture = data.get("image/png")
    text = _joined(output.get("text") or data.get("text/plain") or output.get("evalue"))
    if isinstance(picture, str) and len(picture) <= _MAX_PICTURE:
        try:
            decoded = msgspec.convert(picture.replace("\n", ""), bytes)
        except msgspec.ValidationError:
            decoded = b""
        if decoded:
            yield PreviewBlock(kind="picture", media_type="image/png", data=decoded)
    elif text:
        yield PreviewBlock(kind="text", text=text[:_MAX_TEXT], more=max(len(text) - _MAX_TEXT, 0))


def _dicts(values: object) -> list[dict[str, Any]]:
    found = cast("list[Any]", values) if isinstance(values, list) else []
    return [each for each in found if isinstance(each, dict)]


def _joined(source: object) -> str:
    if isinstance(source, list):
        return "".join(each for each in cast("list[Any]", source) if isinstance(each, str))
    return source if isinstance(source, str) else ""

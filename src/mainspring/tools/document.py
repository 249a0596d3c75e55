"""Makes and changes documents by the confined program of `tools/documents.py`; the file is then written as
every tool writes files, so that the policy, snapshots and undo are the same."""

import csv
import io
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mainspring.formats import PACKAGES
from mainspring.formats.table import table_lines
from mainspring.patterns import lazy_pattern
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.documents import kind_of, run_formats
from mainspring.tools.files import described, encoded, look_at, read_file, text_to_change, write_file
from mainspring.tools.html import html_text
from mainspring.tools.read import page
from mainspring.tools.schema import Arguments
from mainspring.tools.text import decode
from mainspring.tools.write import to_replace

_KINDS = {".docx": "docx", ".xlsx": "xlsx", ".xlsm": "xlsx"}
_CONTROL = lazy_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DELIMITERS = ",;\t|"
_TEXT = (".md", ".markdown", ".txt")

Value = str | int | float | bool | None


class DocumentArguments(Arguments, frozen=True):
    action: Literal["write", "append", "edit", "export", "text"]
    path: str
    content: Annotated[str, Meta(description="Markdown")] = ""
    old: str = ""
    new: str = ""
    sheet: Annotated[str, Meta(description="Of an XLSX; else the first")] = ""
    rows: tuple[tuple[Value, ...], ...] = ()
    cells: dict[str, Value] = msgspec.field(default_factory=dict[str, Value])
    to: Annotated[str, Meta(description="The PDF of an export")] = ""
    offset: Annotated[int, Meta(ge=1)] = 1


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in PACKAGES)


async def _run(arguments: DocumentArguments, place: CallContext) -> Output:
    match arguments.action:
        case "text":
            return Output(text=await _text(arguments, place))
        case "export":
            return Output(text=await _export(arguments, place))
        case "append" if arguments.path.lower().endswith(_TEXT):
            return Output(text=await _append_text(arguments, place))
        case "write":
            version = await to_replace(place, arguments.path)
            data, action = b"", "append"
        case action:
            content = await look_at(place, arguments.path)
            if place.seen.is_outdated(content):
                raise ToolFailed(f"{arguments.path} changed after you read it. Read it again first.")
            data, version = content.data, content.version
    kind = _checked(arguments, data)
    request = {
        "action": action,
        "kind": kind,
        "content": arguments.content,
        "sheet": arguments.sheet,
        "old": arguments.old,
        "new": arguments.new,
        "rows": arguments.rows,
        "cells": arguments.cells,
    }
    texts = (arguments.content, arguments.new, *arguments.cells.values(), *chain(*arguments.rows))
    if any(isinstance(text, str) and _CONTROL.search(text) for text in texts):
        raise ToolFailed("A document cannot hold control characters; nothing was written.")
    told, changed = await run_formats(place, arguments.path, request, data)
    await write_file(place, arguments.path, changed, unchanged_since=version)
    done = "Wrote" if arguments.action == "write" else "Changed"
    return Output(text=f"{done} {arguments.path} ({len(changed):,} bytes): {told['done']}.")


def _checked(arguments: DocumentArguments, data: bytes) -> str:
    """The kind of the document, if the call has what its action takes."""
    path, action = arguments.path, arguments.action
    kind = _KINDS.get(Path(path).suffix.lower(), "")
    if not kind:
        raise ToolFailed(
            f"{path}: {action} is for DOCX and XLSX. Text files are changed with write and edit."
        )
    if data and kind_of(data) != kind:
        raise ToolFailed(f"{path} is not a {kind.upper()} file.")
    needed = {
        ("edit", "docx"): ("old", arguments.old),
        ("edit", "xlsx"): ("cells", arguments.cells),
    }.get((action, kind), ("content", arguments.content) if kind == "docx" else ("rows", arguments.rows))
    if not needed[1]:
        raise ToolFailed(f"To {action} a {kind.upper()} file, give `{needed[0]}`.")
    return kind


async def _export(arguments: DocumentArguments, place: CallContext) -> str:
    if not arguments.to.lower().endswith(".pdf"):
        raise ToolFailed("Give in `to` the path of the PDF.")
    version = await to_replace(place, arguments.to)
    text = await _decoded(arguments.path, place)
    request = {"action": "export", "kind": "pdf", "content": text}
    told, changed = await run_formats(place, arguments.path, request, b"")
    await write_file(place, arguments.to, changed, unchanged_since=version)
    return f"Wrote {arguments.to} ({len(changed):,} bytes): {told['done']}."


async def _append_text(arguments: DocumentArguments, place: CallContext) -> str:
    content, known = await text_to_change(place, arguments.path)
    between = "" if not known.text or known.text.endswith("\n") else "\n"
    after = encoded(known, known.text + between + arguments.content, arguments.path)
    await write_file(place, arguments.path, after, unchanged_since=content.version)
    return f"Changed {arguments.path} ({len(after):,} bytes)."


async def _text(arguments: DocumentArguments, place: CallContext) -> str:
    text = place.hide(await _decoded(arguments.path, place))
    if arguments.path.lower().endswith((".csv", ".tsv")):
        first = text.partition("\n")[0]
        try:
            rows = csv.reader(io.StringIO(text), delimiter=max(_DELIMITERS, key=first.count))
            text = "\n".join(table_lines(list(rows)))
        except csv.Error as error:
            raise ToolFailed(f"{arguments.path} is not a table: {error}.") from error
    else:
        text = html_text(text)
    return page(text, arguments.offset, 1000, room=place.room - 200)


async def _decoded(path: str, place: CallContext) -> str:
    decoded = decode((await read_file(place, path)).data)
    if decoded is None:
        raise ToolFailed(f"{path} is not text.")
    return decoded.text


TOOL = Tool(
    name="document",
    description=described(Path(__file__)),
    arguments=DocumentArguments,
    effect="write",
    effect_of=lambda arguments: "read" if arguments.action == "text" else "write",
    paths=lambda arguments: tuple(filter(None, (arguments.path, arguments.to))),
    run=_run,
)

"""One document a run. Standard input is a line of JSON (`action`, and what that takes), then the bytes of the
document; the answer is a line of JSON, then the bytes of the changed document, if there is one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from mainspring.formats import MAX_CHARS, DocumentError
from mainspring.formats.changes import (
    Changed,
    append_docx,
    append_xlsx,
    edit_docx,
    edit_xlsx,
    markdown_pdf,
)
from mainspring.formats.docx import docx_parts
from mainspring.formats.pdf import pdf_parts
from mainspring.formats.pptx import pptx_parts
from mainspring.formats.xlsx import xlsx_parts

Parts = Iterator[tuple[str, str]]
_READERS: dict[str, Callable[[bytes], Parts]] = {
    "pdf": pdf_parts,
    "docx": docx_parts,
    "xlsx": xlsx_parts,
    "pptx": pptx_parts,
}

_CHANGES: dict[str, Callable[[bytes, dict[str, Any]], Changed]] = {
    "append docx": append_docx,
    "edit docx": edit_docx,
    "append xlsx": append_xlsx,
    "edit xlsx": edit_xlsx,
    "export pdf": markdown_pdf,
}


def read_parts(kind: str, data: bytes) -> list[tuple[str, str]]:
    """The pages, sheets or slides of a document with their titles, until it is too much."""
    parts: list[tuple[str, str]] = []
    left = MAX_CHARS
    for title, text in _READERS[kind](data):
        if len(text) > left:
            kept = text[:left].rpartition("\n")[0]
            parts.append((title, f"{kept}\n(the rest of the document is too long and is not shown)"))
            break
        parts.append((title, text))
        left -= len(text)
    return parts


def answer(request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        if change := _CHANGES.get(f"{request['action']} {request['kind']}"):
            changed, told = change(data, request)
            return {"done": told}, changed
        return {"parts": read_parts(request["kind"], data)}, b""
    except DocumentError as error:
        return {"failed": str(error)}, b""
    except RecursionError:
        return {"failed": "the file is nested too deeply"}, b""


def main() -> None:
    given, out = sys.stdin.buffer, sys.stdout.buffer
    line = given.readline()
    told, changed = answer(json.loads(line), given.read())
    out.write(json.dumps(told).encode() + b"\n" + changed)
    out.flush()


if __name__ == "__main__":
    main()

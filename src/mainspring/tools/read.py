"""Reads a text file in numbered pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.tools import Output, Place, Tool, ToolFailed
from mainspring.tools.files import described, read_file
from mainspring.tools.schema import Arguments

_MAX_LINE = 2000
_MAX_PAGE = 48_000


class ReadArguments(Arguments, frozen=True):
    path: Annotated[str, Meta(description="File to read, relative to the workspace or absolute")]
    offset: Annotated[int, Meta(ge=1, description="First line, counted from 1")] = 1
    limit: Annotated[int, Meta(ge=1, le=5000, description="How many lines at most")] = 1000


async def _run(arguments: ReadArguments, place: Place) -> Output:
    data = (await read_file(place, arguments.path)).data
    if b"\0" in data[:8192]:
        raise ToolFailed(f"{arguments.path} is a binary file of {len(data):,} bytes and has no text to show.")
    text = data.decode("utf-8", errors="replace")
    return Output(text=page(text, arguments.offset, arguments.limit))


def page(text: str, offset: int, limit: int) -> str:
    """Lines with their numbers, and a last line that says what was left out."""
    lines = text.splitlines()
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolFailed(f"The file has {len(lines)} lines; line {offset} is past its end.")
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        cut = f"{line[:_MAX_LINE]}… ({len(line):,} characters)" if len(line) > _MAX_LINE else line
        size += len(cut) + 8
        if size > _MAX_PAGE and shown:
            break
        shown.append(f"{number:>6}\t{cut}")
    last = offset + len(shown) - 1
    if last < len(lines):
        shown.append(f"({len(lines) - last} more lines; go on with offset {last + 1})")
    return "\n".join(shown)


TOOL = Tool(
    name="read",
    description=described(Path(__file__)),
    arguments=ReadArguments,
    effect="read",
    paths=lambda arguments: (arguments.path,),
    run=_run,
)

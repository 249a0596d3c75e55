"""Writes a whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.tools import Output, Place, Tool
from mainspring.tools.files import described, write_file
from mainspring.tools.schema import Arguments


class WriteArguments(Arguments, frozen=True):
    path: Annotated[str, Meta(description="File to write, relative to the workspace or absolute")]
    content: Annotated[str, Meta(description="The whole new content")]


async def _run(arguments: WriteArguments, place: Place) -> Output:
    data = arguments.content.encode("utf-8", errors="surrogatepass")
    await write_file(place, arguments.path, data)
    return Output(text=f"Wrote {arguments.path} ({len(data):,} bytes).")


TOOL = Tool(
    name="write",
    description=described(Path(__file__)),
    arguments=WriteArguments,
    effect="write",
    paths=lambda arguments: (arguments.path,),
    run=_run,
)

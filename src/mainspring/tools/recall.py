"""Reads what was left out of the conversation to save room, by its handle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.tools import Output, Place, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.read import page
from mainspring.tools.schema import Arguments


class RecallArguments(Arguments, frozen=True):
    handle: Annotated[str, Meta(description="Such as e123")]
    offset: Annotated[int, Meta(ge=1, description="First line, counted from 1")] = 1
    limit: Annotated[int, Meta(ge=1, le=5000, description="How many lines at most")] = 1000


async def _run(arguments: RecallArguments, place: Place) -> Output:
    text = await place.recall(arguments.handle)
    if text is None:
        raise ToolFailed(f"Nothing is kept under {arguments.handle!r}. A handle looks like e123.")
    return Output(text=page(text, arguments.offset, arguments.limit))


TOOL = Tool(
    name="recall",
    description=described(Path(__file__)),
    arguments=RecallArguments,
    effect="read",
    run=_run,
)

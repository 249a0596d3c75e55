"""Writes down what must outlive the history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.events import Remembered
from mainspring.tools import Output, Place, Tool
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments


class NoteArguments(Arguments, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=4000)]


async def _run(arguments: NoteArguments, place: Place) -> Output:
    await place.record(Remembered(text=arguments.text, call=place.call))
    return Output(text="Noted.")


TOOL = Tool(
    name="note",
    description=described(Path(__file__)),
    arguments=NoteArguments,
    effect="none",
    run=_run,
)

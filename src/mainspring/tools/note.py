"""Writes down what must outlive the history."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.errors import UsageError
from mainspring.events import Remembered
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments


class NoteArguments(Arguments, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=4000)]


async def _run(arguments: NoteArguments, place: CallContext) -> Output:
    await place.record(Remembered(text=arguments.text, call=place.call))
    try:
        await place.remember(arguments.text)
    except (OSError, UsageError) as error:
        raise ToolFailed(f"Noted for this session, but not for later ones: {error}") from error
    return Output(text="Noted.")


TOOL = Tool(
    name="note",
    description=described(Path(__file__)),
    arguments=NoteArguments,
    effect="none",
    run=_run,
)

"""Tells a person something while they are away. The call itself is what is told: whoever follows the journal
(`notify/notices.py`) sends it."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments


class NotifyArguments(Arguments, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=500)]


async def _run(arguments: NotifyArguments, place: CallContext) -> Output:  # noqa: ARG001 - both are on record
    return Output(text="They will be told.")


TOOL = Tool(
    name="notify",
    description=described(Path(__file__)),
    arguments=NotifyArguments,
    effect="network",
    run=_run,
)

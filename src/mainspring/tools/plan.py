"""Keeps the to-do list that the user sees."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.events import PlanItem, PlanSet, Progress
from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments


class Item(Arguments, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=500)]
    progress: Progress = "open"


class PlanArguments(Arguments, frozen=True):
    items: Annotated[tuple[Item, ...], Meta(max_length=100)]


async def _run(arguments: PlanArguments, place: CallContext) -> Output:
    items = tuple(PlanItem(text=item.text, progress=item.progress) for item in arguments.items)
    await place.record(PlanSet(items=items, call=place.call))
    done = sum(item.progress == "done" for item in items)
    return Output(text=f"The plan has {len(items)} items, {done} of them done.")


TOOL = Tool(
    name="plan",
    description=described(Path(__file__)),
    arguments=PlanArguments,
    effect="none",
    run=_run,
)

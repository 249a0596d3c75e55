"""Writes a whole file, and overwrites only what was seen as it is."""

from pathlib import Path

from mainspring.sandbox.files import Version
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described, found_at, look_at, write_file
from mainspring.tools.placeholders import placeholder
from mainspring.tools.schema import Arguments
from mainspring.tools.text import decode


class WriteArguments(Arguments, frozen=True):
    path: str
    content: str


async def _run(arguments: WriteArguments, place: CallContext) -> Output:
    data = arguments.content.encode("utf-8", errors="surrogatepass")
    replaced = await to_replace(place, arguments.path)
    if replaced:
        there = (await look_at(place, arguments.path)).data
        if there == data:
            return Output(text=f"{arguments.path} has exactly this content already; nothing was changed.")
        before = decode(there)
        if left_out := placeholder(arguments.content, before.text if before else ""):
            raise ToolFailed(
                f"The content has {left_out!r} in place of real lines; nothing was written."
                " Write the whole file, or use edit."
            )
    await write_file(place, arguments.path, data, unchanged_since=replaced)
    done = "Replaced" if replaced else "Wrote"
    return Output(text=f"{done} {arguments.path} ({len(data):,} bytes).")


async def to_replace(place: CallContext, path: str) -> Version | None:
    """The version that is there and may be overwritten, or None when nothing is there."""
    found = await found_at(place, path)
    if found is None:
        return None
    if found.path not in place.seen and found.size:
        raise ToolFailed(
            f"{path} exists and you have not read it in this session. Read it first, or use edit."
        )
    if place.seen.is_outdated(found):
        raise ToolFailed(f"{path} changed after you read it; nothing was written. Read it again first.")
    return found.version


TOOL = Tool(
    name="write",
    description=described(Path(__file__)),
    arguments=WriteArguments,
    effect="write",
    paths=lambda arguments: (arguments.path,),
    run=_run,
)

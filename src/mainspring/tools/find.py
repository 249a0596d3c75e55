"""Lists files: by pattern, or as a tree that says how much lies below what it shows."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.events.counts import plural
from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.files import described
from mainspring.tools.globs import glob_regex
from mainspring.tools.schema import Arguments
from mainspring.tools.walk import Listing, files_under

_MAX_LINES = 400


class FindArguments(Arguments, frozen=True):
    path: str = "."
    glob: Annotated[str, Meta(description="Without a slash: names at any depth")] = ""
    depth: Annotated[int, Meta(ge=1, le=20)] = 3
    limit: Annotated[int, Meta(ge=1, le=2000)] = _MAX_LINES


async def _run(arguments: FindArguments, place: CallContext) -> Output:
    listing = await files_under(place, arguments.path)
    lines = _matching(listing, arguments.glob) if arguments.glob else tree(listing.paths, arguments.depth)
    if not lines:
        what = f"match {arguments.glob}" if arguments.glob else "are not ignored"
        return Output(text=f"There are no files in {arguments.path} that {what}.")
    shown = lines[: arguments.limit]
    if left := len(lines) - len(shown):
        shown.append(f"({left:,} more are left out; narrow the search)")
    if listing.is_cut:
        shown.append(
            f"(the folder is too large to see whole: only {len(listing.paths):,} files were looked at)"
        )
    if listing.unnamed:
        shown.append(f"({plural(listing.unnamed, 'file')} left out: the name is not UTF-8)")
    return Output(text="\n".join(shown))


def _matching(listing: Listing, glob: str) -> list[str]:
    regex = glob_regex(glob)
    return [path for path in listing.paths if regex.fullmatch(path)]


def tree(paths: Sequence[str], depth: int) -> list[str]:
    """The folders and files down to a depth; a folder at that depth says how many files are in it."""
    below: Counter[str] = Counter()
    rows: dict[tuple[str, ...], str] = {}
    for path in paths:
        parts = path.split("/")
        for level in range(1, min(len(parts) - 1, depth) + 1):
            folder = "/".join(parts[:level])
            below[folder] += 1
            rows.setdefault(tuple(parts[:level]), folder)
        if len(parts) <= depth:
            rows[tuple(parts)] = ""
    lines: list[str] = []
    for parts, folder in sorted(rows.items()):
        count = f" ({below[folder]:,} files)" if folder and len(parts) == depth else ""
        lines.append(f"{'  ' * (len(parts) - 1)}{parts[-1]}{'/' if folder else ''}{count}")
    return lines


TOOL = Tool(
    name="find",
    description=described(Path(__file__)),
    arguments=FindArguments,
    effect="read",
    paths=lambda arguments: (arguments.path,),
    run=_run,
)

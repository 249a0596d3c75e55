"""Searches the contents of files: with ripgrep where the sandbox has it, else in Python to the same end."""

import asyncio
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mainspring.errors import PathRefused, UsageError
from mainspring.events.counts import plural
from mainspring.formats import is_for_documents, kind_of
from mainspring.sandbox import CommandResult
from mainspring.sandbox.files import Files
from mainspring.sandbox.regex import check_pattern, matching
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described, explained, look_at
from mainspring.tools.globs import glob_regex
from mainspring.tools.schema import Arguments
from mainspring.tools.text import decode, lines_of
from mainspring.tools.walk import Listing, Root, beginning, files_under, readable_root, ripgrep, shown, walked

_MAX_LINE = 400
_MAX_COLUMNS = 4096
_MAX_BYTES = 16 * 1024 * 1024
_MAX_HITS = 20_000
_TIME_S = 30.0
_BATCH = 4_000_000


class GrepArguments(Arguments, frozen=True):
    pattern: Annotated[str, Meta(min_length=1)]
    path: str = "."
    glob: Annotated[str, Meta(description="As *.py or src/**")] = ""
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=10)] = 0
    limit: Annotated[int, Meta(ge=1, le=2000)] = 100


class Hit(msgspec.Struct, frozen=True):
    """A line that matches, or one around it."""

    path: str
    number: int
    text: str
    is_match: bool


class Hits(msgspec.Struct, frozen=True):
    hits: tuple[Hit, ...]
    is_cut: bool = False


async def _run(arguments: GrepArguments, place: CallContext) -> Output:
    with explained(arguments.path):
        root = await asyncio.to_thread(readable_root, place.files, arguments.path)
    finished = await _by_ripgrep(arguments, place, root)
    if finished is None:
        found = await asyncio.to_thread(_by_python, arguments, place.files, root)
    else:
        found = _parsed(finished, arguments, place.files, root)
    if not is_for_documents(arguments.glob or root.name):
        return Output(text=told(found, arguments, hide=place.hide))
    texts, not_read = await _documents(arguments, place)
    hits = await asyncio.to_thread(_hits_found, texts, arguments)
    known = {path for path, _ in texts} | not_read.keys()
    others = (hit for hit in found.hits if hit.path not in known)  # not the bytes of a document
    both = Hits((*others, *hits), is_cut=found.is_cut)
    lines = [f"(not searched: {why})" for why in not_read.values()]
    return Output(text="\n".join((told(both, arguments, hide=place.hide), *lines)))


async def _documents(
    arguments: GrepArguments, place: CallContext
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The texts of the documents that are asked for, and why others have none, by their paths."""
    listing = await files_under(place, arguments.path)
    wanted = glob_regex(arguments.glob) if arguments.glob else None
    paths = [
        path
        for path in listing.paths
        if is_for_documents(path) and (wanted is None or wanted.fullmatch(path))
    ]
    texts: list[tuple[str, str]] = []
    not_read: dict[str, str] = {}
    deadline = time.monotonic() + _TIME_S
    for number, path in enumerate(paths):
        if time.monotonic() > deadline:
            not_read[""] = f"{plural(len(paths) - number, 'more document')}; narrow the search"
            break
        try:
            data = (await look_at(place, str(listing.root / path))).data
            if kind := kind_of(data):
                documents = import_module("mainspring.tools.documents")  # loads what confines their reader
                texts.append((path, await documents.document_text(place, path, data, kind)))
        except ToolFailed as error:
            not_read[path] = str(error)
    return texts, not_read


def _hits_found(texts: list[tuple[str, str]], arguments: GrepArguments) -> list[Hit]:
    with _pattern_explained():
        check_pattern(arguments.pattern)
        return [hit for batch in _batches(texts) for hit in _hits_in(batch, arguments)][:_MAX_HITS]


@contextmanager
def _pattern_explained() -> Generator[None]:
    try:
        yield
    except UsageError as error:
        raise ToolFailed(f"The pattern is not a regular expression: {error.__cause__}.") from error
    except TimeoutError as error:
        raise ToolFailed("The pattern takes too long to match. Use a simpler one.") from error


def told(found: Hits, arguments: GrepArguments, *, hide: Callable[[str], str]) -> str:
    """Matches by file, and a count of what was left out. Secrets are hidden before a line is cut."""
    matches = [index for index, hit in enumerate(found.hits) if hit.is_match]
    if not matches:
        return f"Nothing matches {arguments.pattern!r}."
    left = matches[arguments.limit :]
    kept = found.hits[: left[0]] if left else found.hits
    lines: list[str] = []
    for path, hits in groupby(kept, key=lambda hit: hit.path):
        lines.append(path)
        lines += [f"  {hit.number}{':' if hit.is_match else '-'} {_cut(hide(hit.text))}" for hit in hits]
    if left:
        files = plural(len({found.hits[index].path for index in left}), "file")
        more = "at least " if found.is_cut else ""
        lines.append(f"({more}{plural(len(left), 'more match')} in {files} left out; narrow the search)")
    elif found.is_cut:
        lines.append("(there may be more: the search was cut short; narrow it)")
    return "\n".join(lines)


async def _by_ripgrep(arguments: GrepArguments, place: CallContext, root: Root) -> CommandResult | None:
    options = ["--line-number", "--no-heading", "--with-filename", "--null", "--crlf"]
    options += [f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview", f"--context={arguments.context}"]
    if arguments.ignore_case:
        options.append("--ignore-case")
    if arguments.glob and "/" not in arguments.glob:
        # Unlike --glob, a type never brings ignored files back.
        options += [f"--type-add=wanted:{arguments.glob}", "--type=wanted"]
    target = ("--", root.name) if root.name else ()
    return await ripgrep(place, root.folder, (*options, f"--regexp={arguments.pattern}", *target))


def _parsed(finished: CommandResult, arguments: GrepArguments, files: Files, root: Root) -> Hits:
    is_shown = shown(files, root.folder)
    wanted = glob_regex(arguments.glob) if arguments.glob else None
    hits: list[Hit] = []
    for line in beginning(finished).decode("utf-8", "replace").split("\n"):
        path, separator, rest = line.partition("\0")
        numbered = re.match(r"(\d+)([:-])", rest)
        if not separator or not numbered:
            continue
        path = path.removeprefix("./")
        if is_shown(path) and (wanted is None or wanted.fullmatch(path)):
            text = rest[numbered.end() :].removesuffix("\r")
            hits.append(Hit(path, int(numbered[1]), text, numbered[2] == ":"))
    return Hits(tuple(hits[:_MAX_HITS]), is_cut=len(hits) > _MAX_HITS or finished.dropped_bytes > 0)


def _by_python(arguments: GrepArguments, files: Files, root: Root) -> Hits:
    with _pattern_explained():
        check_pattern(arguments.pattern)
    listing = Listing(root.folder, (root.name,)) if root.name else walked(files, root.folder)
    wanted = glob_regex(arguments.glob) if arguments.glob else None
    paths = (path for path in listing.paths if wanted is None or wanted.fullmatch(path))
    deadline = time.monotonic() + _TIME_S
    hits: list[Hit] = []
    for batch in _batches((path, _text(files, listing.root / path)) for path in paths):
        with _pattern_explained():
            hits += _hits_in(batch, arguments)
        if len(hits) > _MAX_HITS or time.monotonic() > deadline:
            return Hits(tuple(hits[:_MAX_HITS]), is_cut=True)
    return Hits(tuple(hits), is_cut=listing.is_cut)


def _batches(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Files and their texts, as many at once as one child should match."""
    batch, size = list[tuple[str, str]](), 0
    for path, text in texts:
        if text:
            batch.append((path, text))
            size += len(text)
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _text(files: Files, path: Path) -> str:
    try:
        decoded = decode(files.read(path, max_bytes=_MAX_BYTES).data)
    except (OSError, PathRefused):
        return ""  # it went away, or may not be read: then it does not match
    return decoded.text if decoded else ""


def _hits_in(batch: list[tuple[str, str]], arguments: GrepArguments) -> Iterator[Hit]:
    of_each = [(path, lines_of(text)) for path, text in batch]
    every = [line for _, lines in of_each for line in lines]
    found = set(matching(arguments.pattern, every, is_case_ignored=arguments.ignore_case))
    context, first = arguments.context, 0
    for path, lines in of_each:
        matches = {number for number in range(len(lines)) if first + number in found}
        first += len(lines)
        around = {
            number
            for match in matches
            for number in range(max(match - context, 0), min(match + context + 1, len(lines)))
        }
        for number in sorted(around):
            yield Hit(path, number + 1, lines[number][:_MAX_COLUMNS], number in matches)


def _cut(line: str) -> str:
    return f"{line[:_MAX_LINE]}…" if len(line) > _MAX_LINE else line


TOOL = Tool(
    name="grep",
    description=described(Path(__file__)),
    arguments=GrepArguments,
    effect="read",
    paths=lambda arguments: (arguments.path,),
    run=_run,
)

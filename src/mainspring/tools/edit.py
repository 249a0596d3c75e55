"""Replaces exact text in a file: all replacements or none, and never a guess."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.tools import Output, Place, Tool, ToolFailed
from mainspring.tools.files import described, read_file, write_file
from mainspring.tools.schema import Arguments

_NEAR_ENOUGH = 0.5


class Replacement(Arguments, frozen=True):
    old: Annotated[str, Meta(min_length=1, description="Text to find, exactly as in the file")]
    new: Annotated[str, Meta(description="Text to put in its place")]
    every: Annotated[bool, Meta(description="Replace every occurrence instead of the only one")] = False


class EditArguments(Arguments, frozen=True):
    path: Annotated[str, Meta(description="File to change")]
    edits: Annotated[tuple[Replacement, ...], Meta(min_length=1, description="Applied in order, all or none")]


async def _run(arguments: EditArguments, place: Place) -> Output:
    content = await read_file(place, arguments.path)
    try:
        before = content.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{arguments.path} is not UTF-8 text; change it with a command.") from error
    after = replace_all(before, arguments.edits, arguments.path)
    if after == before:
        raise ToolFailed("The edits change nothing: old and new text are the same.")
    await write_file(place, arguments.path, after.encode("utf-8"), unchanged_since=content.version)
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return Output(text=f"Changed {arguments.path}:\n" + "\n".join(list(diff)[2:]))


def replace_all(text: str, edits: tuple[Replacement, ...], path: str) -> str:
    """The text after all edits. Line ends of the file are kept: a file with CRLF matches edits with LF."""
    crlf = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    for number, edit in enumerate(edits, 1):
        old, new = edit.old, edit.new
        if crlf:
            old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
        found = text.count(old)
        which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        if found == 0:
            near = nearest(text, old)
            raise ToolFailed(f"{which}the old text is not in {path}; nothing was changed.{near}")
        if found > 1 and not edit.every:
            raise ToolFailed(
                f"{which}the old text occurs {found} times in {path}; nothing was changed."
                " Give more of the surrounding lines, or set every."
            )
        text = text.replace(old, new)
    return text


def nearest(text: str, wanted: str) -> str:
    """The lines most like the wanted ones, so that the model can correct itself."""
    lines, size = text.splitlines(), max(len(wanted.splitlines()), 1)
    wanted_lines = wanted.splitlines()
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted_lines[0].strip() if wanted_lines else wanted)
    best, best_ratio = -1, _NEAR_ENOUGH
    for index, line in enumerate(lines[:20_000]):
        matcher.set_seq1(line.strip())
        if matcher.real_quick_ratio() > best_ratio and (ratio := matcher.ratio()) > best_ratio:
            best, best_ratio = index, ratio
    if best < 0:
        return " Read the file again to see what it contains."
    shown = "\n".join(lines[best : best + size])
    return f" The nearest text starts at line {best + 1}:\n{shown}"


TOOL = Tool(
    name="edit",
    description=described(Path(__file__)),
    arguments=EditArguments,
    effect="write",
    paths=lambda arguments: (arguments.path,),
    run=_run,
)

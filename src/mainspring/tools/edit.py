"""Replaces exact text in a file: all replacements or none, and never a guess."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described, encoded, text_to_change, write_file
from mainspring.tools.schema import Arguments
from mainspring.tools.text import is_crlf, lines_of, with_crlf, with_lf

_NEAR_ENOUGH = 0.5
_MAX_LINES_COMPARED = 20_000
_MAX_COMPARED = 300
_MAX_NEAR = 40
_MAX_SHOWN = 500
_MIXED_ENDS = (
    "the old text is in {path} with other line ends; nothing was changed. Some lines of the file end in CR LF"
    " and some in LF alone: edit line by line, or write \\r\\n in old and new where the file has it."
)


class Replacement(Arguments, frozen=True):
    old: Annotated[str, Meta(min_length=1, description="Text as it stands in the file")]
    new: str
    every: Annotated[bool, Meta(description="Replace all occurrences")] = False


class EditArguments(Arguments, frozen=True):
    path: str
    edits: Annotated[tuple[Replacement, ...], Meta(min_length=1)]


async def _run(arguments: EditArguments, place: CallContext) -> Output:
    path = arguments.path
    content, decoded = await text_to_change(place, path)
    before = decoded.text
    after = replace_all(before, arguments.edits, path, hide=place.hide)
    if after == before:
        raise ToolFailed("The edits change nothing: old and new text are the same.")
    await write_file(place, path, encoded(decoded, after, path), unchanged_since=content.version)
    # Hidden before lines are left out: some lines of a key would not be known as one.
    shown = lines_of(place.hide(before)), lines_of(place.hide(after))
    diff = difflib.unified_diff(*shown, lineterm="", n=1)
    return Output(text=f"Changed {path}:\n" + "\n".join(list(diff)[2:]))


def replace_all(
    text: str, edits: tuple[Replacement, ...], path: str, *, hide: Callable[[str], str] = str
) -> str:
    """The text after all edits. Line ends of the file are kept: a file with CRLF matches edits with LF."""
    has_crlf = is_crlf(text)
    for number, edit in enumerate(edits, 1):
        old, new = edit.old, edit.new
        if has_crlf:
            old, new = with_crlf(old), with_crlf(new)
        found = text.count(old)
        which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        if found == 0:
            if with_lf(old) in with_lf(text):
                raise ToolFailed(f"{which}{_MIXED_ENDS.format(path=path)}")
            near = nearest(hide(text), hide(old))
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
    lines, wanted_lines = lines_of(text), lines_of(wanted)
    key = max(wanted_lines, key=lambda line: len(line.strip()), default="")
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(key.strip()[:_MAX_COMPARED])
    best, best_ratio = -1, _NEAR_ENOUGH
    for index, line in enumerate(lines[:_MAX_LINES_COMPARED]):
        matcher.set_seq1(line.strip()[:_MAX_COMPARED])
        bounds = (matcher.real_quick_ratio(), matcher.quick_ratio())
        if min(bounds) > best_ratio and (ratio := matcher.ratio()) > best_ratio:
            best, best_ratio = index, ratio
    if best < 0:
        return " Read the file again to see what it contains."
    first = max(best - wanted_lines.index(key), 0)
    shown = "\n".join(line[:_MAX_SHOWN] for line in lines[first : first + min(len(wanted_lines), _MAX_NEAR)])
    return f" The nearest text starts at line {first + 1}:\n{shown}"


TOOL = Tool(
    name="edit",
    description=described(Path(__file__)),
    arguments=EditArguments,
    effect="write",
    paths=lambda arguments: (arguments.path,),
    run=_run,
)

"""Replaces text in a file: all replacements or none.

The old text must stand in the file once. Where it differs in white space alone, and one place fits, that is
the place, and the result says so; anything else is an error that shows what stands there.
"""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described, encoded, text_to_change, write_file
from mainspring.tools.fitting import LOOKING_ALIKE, alike, fits, indentation, indented, nearest, with_signs_of
from mainspring.tools.placeholders import placeholder
from mainspring.tools.schema import Arguments
from mainspring.tools.text import is_crlf, lines_of, with_crlf, with_lf
from mainspring.tools.written import meant

_MIXED_ENDS = (
    "the old text is in {path} with other line ends; nothing was changed. Some lines of the file end in CR LF"
    " and some in LF alone: edit line by line, or write \\r\\n in old and new where the file has it."
)


class Replacement(Arguments, frozen=True):
    old: Annotated[str, Meta(min_length=1, description="Text as it stands in the file")]
    new: str
    every: bool = False


class EditArguments(Arguments, frozen=True):
    path: str
    edits: Annotated[tuple[Replacement, ...], Meta(min_length=1)]


async def _run(arguments: EditArguments, place: CallContext) -> Output:
    path = arguments.path
    content, decoded = await text_to_change(place, path)
    before = decoded.text
    after, assumed = replace_all(before, arguments.edits, path, hide=place.hide)
    if after == before:
        raise ToolFailed("The edits change nothing: old and new text are the same.")
    await write_file(place, path, encoded(decoded, after, path), unchanged_since=content.version)
    # Hidden before lines are left out: some lines of a key would not be known as one.
    shown = lines_of(place.hide(before)), lines_of(place.hide(after))
    diff = difflib.unified_diff(*shown, lineterm="", n=1)
    how = f" ({'; '.join(assumed)})" if assumed else ""
    return Output(text=f"Changed {path}{how}:\n" + "\n".join(list(diff)[2:]))


def replace_all(
    text: str, edits: tuple[Replacement, ...], path: str, *, hide: Callable[[str], str] = str
) -> tuple[str, list[str]]:
    """The text after all edits, and what was assumed. Line ends of the file are kept: a file with CRLF
    matches edits with LF."""
    has_crlf = is_crlf(text)
    assumed: list[str] = []
    for number, edit in enumerate(edits, 1):
        old, new = edit.old, edit.new
        if has_crlf:
            old, new = with_crlf(old), with_crlf(new)
        found = text.count(old)
        which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        if left_out := placeholder(new, old):
            raise ToolFailed(
                f"{which}the new text has {left_out!r} in place of real lines; nothing was changed."
                " Write every line that is to stand in the file."
            )
        if found == 0:
            if with_lf(old) in with_lf(text):
                raise ToolFailed(f"{which}{_MIXED_ENDS.format(path=path)}")
            if loose := _replaced_as_meant(text, old, new, has_crlf=has_crlf):
                text = loose[0]
                assumed.append(loose[1])
                continue
            near = nearest(hide(text), hide(old))
            raise ToolFailed(f"{which}the old text is not in {path}; nothing was changed.{near}")
        if found > 1 and not edit.every:
            raise ToolFailed(
                f"{which}the old text occurs {found} times in {path}; nothing was changed."
                " Give more of the surrounding lines, or set every."
            )
        text = text.replace(old, new)
    return text, assumed


def _replaced_as_meant(text: str, old: str, new: str, *, has_crlf: bool) -> tuple[str, str] | None:
    """The text with the one place replaced that was meant, and what was assumed."""
    loose = _replaced_loosely(text, old, new, has_crlf=has_crlf)
    if loose is None or loose[1].endswith(LOOKING_ALIKE):
        loose = _replaced_alike(text, old, new) or loose
    if loose:
        return loose
    for other, put, difference in [*meant(with_lf(old), with_lf(new))]:
        wanted = with_crlf(other) if has_crlf else other
        if wanted.strip() and text.count(wanted) == 1:
            line = text.count("\n", 0, text.index(wanted)) + 1
            told = f"at line {line}, where the old text differs in {difference}"
            return text.replace(wanted, with_crlf(put) if has_crlf else put), told
        if wanted.strip() and (loose := _replaced_loosely(text, wanted, put, has_crlf=has_crlf)):
            return loose
    return None


def _replaced_alike(text: str, old: str, new: str) -> tuple[str, str] | None:
    """The same for a place, also within a line, that differs in signs which look alike: those that stay are
    the file's."""
    folded, wanted = alike(text), alike(old)
    if folded.count(wanted) != 1:
        return None
    start = folded.index(wanted)
    put = with_signs_of(text[start : start + len(old)], old, new)
    line = text.count("\n", 0, start) + 1
    told = f"at line {line}, where the old text differs in {LOOKING_ALIKE}"
    return text[:start] + put + text[start + len(old) :], told


def _replaced_loosely(text: str, old: str, new: str, *, has_crlf: bool) -> tuple[str, str] | None:
    """The text with whole lines replaced that differ from the old ones in white space alone, and what was
    assumed; None when not exactly one place fits."""
    lines, wanted = text.split("\n"), with_lf(old).strip("\n").split("\n")
    places = fits(lines, wanted)
    if len(places) != 1:
        return None
    start, end = places[0].start, places[0].start + len(wanted)
    known = indentation(wanted, lines[start:end])
    ending = "\r" if has_crlf else ""
    put = (
        [indented(line, known) + ending for line in with_lf(new).strip("\n").split("\n")]
        if new.strip()
        else []
    )
    if lines[end - 1 :] == [lines[end - 1]] and put:  # the last line of a file that does not end in one
        put[-1] = put[-1].removesuffix(ending)
    difference = places[0].difference or "its line ends"
    told = f"at line {start + 1}, where the old text differs in {difference}"
    return "\n".join([*lines[:start], *put, *lines[end:]]), told


TOOL = Tool(
    name="edit",
    description=described(Path(__file__)),
    arguments=EditArguments,
    effect="write",
    paths=lambda arguments: (arguments.path,),
    run=_run,
)

"""Unified diffs: what a patch says about each file, and a text with its hunks applied.

Where line numbers or counts are wrong, or white space differs, a hunk is applied at the only place where its
old lines stand; when there is none, or more than one, it fails with the file and the hunk named. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from mainspring.patterns import lazy_pattern
from mainspring.tools import ToolFailed
from mainspring.tools.fitting import Fit, fits, indentation, indented, nearest
from mainspring.tools.patch_forms import plain_lines
from mainspring.tools.placeholders import placeholder
from mainspring.tools.text import is_crlf, with_crlf

_HEADER = lazy_pattern(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*|@@(?: .*)?")
_LINES = lazy_pattern(r"[^\n]*\n|[^\n]+")
_BLANK = (" ", "\n")
_META = ("index ", "old mode ", "new mode ", "similarity index ", "dissimilarity index ")


class Hunk(msgspec.Struct, frozen=True):
    """Lines with their signs and ends. `start` is the line it names, 0 when it names none."""

    number: int
    start: int
    body: tuple[tuple[str, str], ...]

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(text for sign, text in self.body if sign != "+")

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(text for sign, text in self.body if sign != "-")

    def new_at(self, found: Sequence[str]) -> list[str]:
        """The new lines where the old ones are these in the file, which may differ in white space."""
        known = indentation(self.old, found)
        there = iter(found)
        put: list[str] = []
        for sign, text in self.body:
            kept = "" if sign == "+" else next(there)
            if sign != "-":
                put.append(kept or indented(text, known))
        return put


class FilePatch(msgspec.Struct, frozen=True):
    """One file: `old` is empty for a new file, `new` for one that is removed."""

    old: str
    new: str
    hunks: tuple[Hunk, ...] = ()
    is_executable: bool = False

    @property
    def name(self) -> str:
        return self.new or self.old


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """The files of a patch; raises `ToolFailed` when it is not one."""
    lines = plain_lines(text)
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(("diff --git ", "--- ")):
            file, at = _file(lines, at)
            files.append(file)
        elif lines[at].startswith("@@"):
            raise ToolFailed(f"Line {at + 1} of the patch is a hunk without a file: write --- and +++ first.")
        else:
            at += 1
    if not files:
        raise ToolFailed("The patch names no file: write `--- a/path` and `+++ b/path` before its hunks.")
    return tuple(files)


def apply_hunks(
    text: str, file: FilePatch, *, hide: Callable[[str], str] = str
) -> tuple[str, tuple[str, ...]]:
    """The text after all hunks, and what was assumed; raises `ToolFailed` that names the first one that does
    not fit, with what stands there. Line ends, and a last line without one, stay as they are unless the patch
    speaks of them."""
    if is_crlf(text):
        applied, assumed = apply_hunks(text.replace("\r\n", "\n"), file, hide=hide)
        return with_crlf(applied), assumed
    is_open = bool(text) and not text.endswith("\n")
    says_so = any(not line.endswith("\n") for hunk in file.hunks for line in (*hunk.old, *hunk.new))
    if is_open and not says_so:
        applied, assumed = apply_hunks(text + "\n", file, hide=hide)
        return applied.removesuffix("\n"), assumed
    lines: list[str] = _LINES.findall(text)
    try:
        return _applied(lines, file, file.hunks)
    except _NoPlace as error:
        # Hunks may stand in another order than their places.
        places = [_anywhere(lines, hunk) for hunk in file.hunks]
        ordered = [hunk for _, hunk in sorted(zip(places, file.hunks, strict=True), key=lambda each: each[0])]
        if -1 not in places and ordered != [*file.hunks]:
            return _applied(lines, file, ordered)
        shown = nearest(hide(text), hide("".join(error.old)))
        raise ToolFailed(f"{error}\nNothing was changed.{shown}") from error


def _applied(lines: Sequence[str], file: FilePatch, hunks: Sequence[Hunk]) -> tuple[str, tuple[str, ...]]:
    put: list[str] = []
    told: list[str] = []
    done = 0
    for asked in hunks:
        hunk = asked
        try:
            fit = _place(lines, hunk, done, file.name)
        except ToolFailed:
            rest = _without_overlap(hunk, lines, put, done)
            if rest is None:
                raise
            hunk, fit = rest, Fit(done)
        at, end = fit.start, fit.start + len(hunk.old)
        if fit.difference:
            told.append(f"hunk {hunk.number} at line {at + 1}, where it differs in {fit.difference}")
        put += [*lines[done:at], *(hunk.new_at(lines[at:end]) if fit.difference else hunk.new)]
        done = end
    return "".join([*put, *lines[done:]]), tuple(told)


class _NoPlace(ToolFailed):
    """The old lines of a hunk do not stand behind those of the hunk before it."""

    def __init__(self, message: str, old: Sequence[str]) -> None:
        super().__init__(message)
        self.old = old


def _anywhere(lines: Sequence[str], hunk: Hunk) -> int:
    """Where a hunk stands in the whole file; -1 when that is not one place."""
    at = hunk.start - 1
    if at >= 0 and lines[at : at + len(hunk.old)] == [*hunk.old]:
        return at
    found = fits(lines, hunk.old) if hunk.old else []
    return found[0].start if len(found) == 1 else -1


def _without_overlap(hunk: Hunk, lines: Sequence[str], put: Sequence[str], done: int) -> Hunk | None:
    """The hunk without the context that the hunk before it ended with, as it was or as it is now; None unless
    what is left stands right behind that."""
    context = next((at for at, (sign, _) in enumerate(hunk.body) if sign != " "), len(hunk.body))
    for size in range(min(context, done, len(hunk.old) - 1), 0, -1):
        lead, rest = [*hunk.old[:size]], [*hunk.old[size:]]
        is_behind = [*lines[done : done + len(rest)]] == rest
        if is_behind and lead in ([*lines[done - size : done]], [*put[-size:]]):
            return msgspec.structs.replace(hunk, body=hunk.body[size:])
    return None


def _place(lines: Sequence[str], hunk: Hunk, first: int, name: str) -> Fit:
    """Where the old lines of a hunk stand."""
    old, size = list(hunk.old), len(hunk.old)
    if left_out := placeholder("".join(hunk.new), "".join(old)):
        raise ToolFailed(f"{name}, hunk {hunk.number}: {left_out!r} stands in place of real lines.")
    if not old:
        if first <= hunk.start <= len(lines) and (hunk.start or not lines):
            return Fit(hunk.start)
        raise ToolFailed(f"{name}, hunk {hunk.number}: it has no old lines, so its place is not known.")
    at = hunk.start - 1
    if at >= first and lines[at : at + size] == old:
        return Fit(at)
    found = fits(lines, old, first)
    if len(found) == 1:
        return found[0]
    if found:
        where = ", ".join(str(fit.start + 1) for fit in found[:5])
        raise ToolFailed(
            f"{name}, hunk {hunk.number}: its old lines stand at several places (lines {where});"
            " give more context or the right line number."
        )
    wanted = "".join(old)[:1000].rstrip()
    raise _NoPlace(f"{name}, hunk {hunk.number}: its old lines are not in the file:\n{wanted}", old)


def _file(lines: Sequence[str], at: int) -> tuple[FilePatch, int]:
    named = re.fullmatch(r"diff --git a/(.*) b/(.*)", lines[at])
    old, new = (named[1], named[2]) if named else ("", "")
    at += lines[at].startswith("diff --git ")
    is_executable = has_names = False
    while at < len(lines) and not lines[at].startswith(("@@", "diff --git ")):
        line = lines[at]
        if _begins_hunks(lines, at):
            old, new = _path(line[4:]), _path(lines[at + 1][4:])
            at, has_names = at + 2, True
            break
        key, _, value = line.partition(" ")
        match key, value.partition(" ")[0]:
            case "rename", "from":
                old = value.removeprefix("from ")
            case "rename", "to":
                new = value.removeprefix("to ")
            case "new", "file":
                old, is_executable = "", value.endswith("755")
            case "deleted", "file":
                new = ""
            case _ if line and not line.startswith(_META):
                raise ToolFailed(f"Line {at + 1} of the patch is not understood: {line[:200]!r}.")
            case _:
                pass
        at += 1
    if not old and not new:
        raise ToolFailed(f"The patch names no file before its line {at + 1}.")
    hunks, at = _hunks(lines, at, new or old)
    if not hunks and has_names and old == new:
        raise ToolFailed(f"{new}: the patch has no hunks for it: write @@, then its lines.")
    return FilePatch(old, new, hunks, is_executable), at


def _hunks(lines: Sequence[str], at: int, file: str) -> tuple[tuple[Hunk, ...], int]:
    hunks: list[Hunk] = []
    while at < len(lines) and _begins_hunk(lines[at], is_first=not hunks):
        hunk, at = _hunk(lines, at, file, len(hunks) + 1)
        hunks.append(hunk)
    return tuple(hunks), at


def _begins_hunk(line: str, *, is_first: bool) -> bool:
    """Also the lines of a single hunk without a header."""
    return line.startswith("@@") or (is_first and line[:1] in ("+", "-", " ") and bool(line.strip()))


def _path(text: str) -> str:
    path = text.partition("\t")[0].rstrip()
    return "" if path == "/dev/null" else re.sub(r"^[ab]/", "", path)


def _hunk(lines: Sequence[str], at: int, file: str, number: int) -> tuple[Hunk, int]:
    begun = at + lines[at].startswith("@@")
    header = _HEADER.fullmatch(lines[at] if begun > at else "@@")
    if header is None:
        raise ToolFailed(f"{file}, hunk {number}: the header {lines[at][:100]!r} is not understood.")
    end = begun
    while (
        end < len(lines)
        and not lines[end].startswith(("@@", "diff --git "))
        and not _begins_hunks(lines, end)
    ):
        end += 1
    wanted = None if header[1] is None else (int(header[2] or 1), int(header[4] or 1))
    hunk = Hunk(number, int(header[1] or 0), _body(lines[begun:end], wanted))
    # Blank lines between two files are no part of the hunk before them. Other counts are not believed.
    while wanted not in (None, (len(hunk.old), len(hunk.new))) and hunk.body[1:] and hunk.body[-1] == _BLANK:
        hunk = Hunk(number, hunk.start, hunk.body[:-1])
    return hunk, end


def _begins_hunks(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _body(body: Sequence[str], wanted: tuple[int, int] | None) -> tuple[tuple[str, str], ...]:
    """The lines of a hunk by their signs. A line without a sign is context whose only space was lost, unless
    the hunk has all that its header says: then it is what somebody wrote behind it."""
    parts: list[tuple[str, str]] = []
    for line in body:
        sign = line[:1] or " "
        if sign == "\\" and parts:
            parts[-1] = (parts[-1][0], parts[-1][1].removesuffix("\n"))
        elif sign in " +-":
            parts.append((sign, line[1:] + "\n"))
        elif wanted in (_counts(parts), _counts(parts[:-1])):
            break
        else:
            parts.append((" ", line + "\n"))
    return tuple(parts)


def _counts(parts: Sequence[tuple[str, str]]) -> tuple[int, int]:
    return sum(sign != "+" for sign, _ in parts), sum(sign != "-" for sign, _ in parts)

"""Unified diffs: what a patch says about each file, and a text with its hunks applied.

Where line numbers or counts are wrong, or white space differs, a hunk is applied at the only place where its
old lines stand; when there is none, or more than one, it fails with the file and the hunk named. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from mainspring.patterns import lazy_pattern
from mainspring.tools import ToolFailed
from mainspring.tools.fitting import Fit, fits, indentation, indented, placeholder
from mainspring.tools.text import is_crlf, with_crlf

_HEADER = lazy_pattern(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*|@@(?: .*)?")
_LINES = lazy_pattern(r"[^\n]*\n|[^\n]+")
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
    lines = text.removesuffix("\n").split("\n")
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


def apply_hunks(text: str, file: FilePatch) -> tuple[str, tuple[str, ...]]:
    """The text after all hunks, and what was assumed; raises `ToolFailed` that names the first one that does
    not fit. Line ends, and a last line without one, stay as they are unless the patch speaks of them."""
    if is_crlf(text):
        applied, assumed = apply_hunks(text.replace("\r\n", "\n"), file)
        return with_crlf(applied), assumed
    is_open = bool(text) and not text.endswith("\n")
    says_so = any(not line.endswith("\n") for hunk in file.hunks for line in (*hunk.old, *hunk.new))
    if is_open and not says_so:
        applied, assumed = apply_hunks(text + "\n", file)
        return applied.removesuffix("\n"), assumed
    lines: list[str] = _LINES.findall(text)
    put: list[str] = []
    told: list[str] = []
    done = 0
    for hunk in file.hunks:
        fit = _place(lines, hunk, done, file.name)
        at, end = fit.start, fit.start + len(hunk.old)
        if fit.difference:
            told.append(f"hunk {hunk.number} at line {at + 1}, where it differs in {fit.difference}")
        put += [*lines[done:at], *(hunk.new_at(lines[at:end]) if fit.difference else hunk.new)]
        done = end
    return "".join([*put, *lines[done:]]), tuple(told)


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
    raise ToolFailed(f"{name}, hunk {hunk.number}: its old lines are not in the file:\n{''.join(old)[:1000]}")


def _file(lines: Sequence[str], at: int) -> tuple[FilePatch, int]:
    named = re.fullmatch(r"diff --git a/(.*) b/(.*)", lines[at])
    old, new = (named[1], named[2]) if named else ("", "")
    at += lines[at].startswith("diff --git ")
    is_executable = False
    while at < len(lines) and not lines[at].startswith(("@@", "diff --git ")):
        line = lines[at]
        if _begins_hunks(lines, at):
            old, new = _path(line[4:]), _path(lines[at + 1][4:])
            at += 2
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
    hunks: list[Hunk] = []
    while at < len(lines) and lines[at].startswith("@@"):
        hunk, at = _hunk(lines, at, new or old, len(hunks) + 1)
        hunks.append(hunk)
    return FilePatch(old, new, tuple(hunks), is_executable), at


def _path(text: str) -> str:
    path = text.partition("\t")[0].rstrip()
    return "" if path == "/dev/null" else re.sub(r"^[ab]/", "", path)


def _hunk(lines: Sequence[str], at: int, file: str, number: int) -> tuple[Hunk, int]:
    header = _HEADER.fullmatch(lines[at])
    if header is None:
        raise ToolFailed(f"{file}, hunk {number}: the header {lines[at][:100]!r} is not understood.")
    end = at + 1
    while (
        end < len(lines)
        and not lines[end].startswith(("@@", "diff --git "))
        and not _begins_hunks(lines, end)
    ):
        end += 1
    rest = end
    wanted = None if header[1] is None else (int(header[2] or 1), int(header[4] or 1))
    hunk = Hunk(number, int(header[1] or 0), _body(lines[at + 1 : end], f"{file}, hunk {number}"))
    # Blank lines between two files are no part of the hunk before them. Other counts are not believed.
    while wanted not in (None, (len(hunk.old), len(hunk.new))) and not lines[end - 1] and end > at + 1:
        end -= 1
        hunk = Hunk(number, hunk.start, hunk.body[:-1])
    return hunk, rest


def _begins_hunks(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _body(body: Sequence[str], where: str) -> tuple[tuple[str, str], ...]:
    """The lines of a hunk by their signs. A blank line is context whose only space was lost."""
    parts: list[tuple[str, str]] = []
    for line in body:
        sign = line[:1] or " "
        if sign == "\\" and parts:
            parts[-1] = (parts[-1][0], parts[-1][1].removesuffix("\n"))
        elif sign in " +-":
            parts.append((sign, line[1:] + "\n"))
        else:
            raise ToolFailed(f"{where}: every line must begin with a space, + or -: {line[:200]!r}.")
    return tuple(parts)

"""Unified diffs: what a patch says about each file, and a text with its hunks applied.

Context must match exactly. Where the line numbers are wrong, a hunk is applied at the only place where its
old lines stand; when there is none, or more than one, it fails with the file and the hunk named. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from mainspring.tools import ToolFailed
from mainspring.tools.text import is_crlf, with_crlf

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*|@@(?: .*)?")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_META = ("index ", "old mode ", "new mode ", "similarity index ", "dissimilarity index ")


class Hunk(msgspec.Struct, frozen=True):
    """Old and new lines with their ends. `start` is the line it names, 0 when it names none."""

    number: int
    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


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


def apply_hunks(text: str, file: FilePatch) -> str:
    """The text after all hunks; raises `ToolFailed` that names the first one that does not fit.
    Line ends, and a last line without one, stay as they are unless the patch speaks of them."""
    if is_crlf(text):
        return with_crlf(apply_hunks(text.replace("\r\n", "\n"), file))
    is_open = bool(text) and not text.endswith("\n")
    says_so = any(not line.endswith("\n") for hunk in file.hunks for line in (*hunk.old, *hunk.new))
    if is_open and not says_so:
        return apply_hunks(text + "\n", file).removesuffix("\n")
    lines: list[str] = _LINES.findall(text)
    applied: list[str] = []
    done = 0
    for hunk in file.hunks:
        at = _place(lines, hunk, done, file.name)
        applied += [*lines[done:at], *hunk.new]
        done = at + len(hunk.old)
    return "".join([*applied, *lines[done:]])


def _place(lines: Sequence[str], hunk: Hunk, first: int, name: str) -> int:
    """The index at which the old lines of a hunk stand."""
    old, size = list(hunk.old), len(hunk.old)
    if not old:
        if first <= hunk.start <= len(lines) and (hunk.start or not lines):
            return hunk.start
        raise ToolFailed(f"{name}, hunk {hunk.number}: it has no old lines, so its place is not known.")
    at = hunk.start - 1
    if at >= first and lines[at : at + size] == old:
        return at
    found = [at for at in range(first, len(lines) - size + 1) if lines[at : at + size] == old]
    if len(found) == 1:
        return found[0]
    if found:
        where = ", ".join(str(at + 1) for at in found[:5])
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
    old, new = _sides(lines[at + 1 : end], f"{file}, hunk {number}")
    # Blank lines between two files are no part of the hunk before them.
    while wanted not in (None, (len(old), len(new))) and not lines[end - 1] and end > at + 1:
        end -= 1
        old, new = _sides(lines[at + 1 : end], f"{file}, hunk {number}")
    if wanted not in (None, (len(old), len(new))):
        told = _sides(lines[at + 1 : rest], "")
        raise ToolFailed(
            f"{file}, hunk {number}: the header says {wanted[0]} old and {wanted[1]} new lines, and it has"
            f" {len(told[0])} and {len(told[1])}. Correct it, or write `@@` alone."
        )
    return Hunk(number, int(header[1] or 0), old, new), rest


def _begins_hunks(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _sides(body: Sequence[str], where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The old and the new lines of a hunk. A blank line is context whose only space was lost."""
    parts: list[tuple[str, str]] = []
    for line in body:
        sign = line[:1] or " "
        if sign == "\\" and parts:
            parts[-1] = (parts[-1][0], parts[-1][1].removesuffix("\n"))
        elif sign in " +-":
            parts.append((sign, line[1:] + "\n"))
        else:
            raise ToolFailed(f"{where}: every line must begin with a space, + or -: {line[:200]!r}.")
    old = tuple(text for sign, text in parts if sign != "+")
    return old, tuple(text for sign, text in parts if sign != "-")

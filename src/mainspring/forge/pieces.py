"""Cuts a file into pieces that fit a model's window, where its definitions begin. Pure."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec

from mainspring.forge.values import OutlinedDefinition, SourceFile

MAX_PIECES = 60
"""A file with more is left to a person."""
LEAST_CHARS = 600
_UNKNOWN_WINDOW = 8_192
_MOST_CHARS = 24_000
_MOST_OUTPUT = 4_096
_LEAST_OUTPUT = 256
_AROUND_TOKENS = 450  # instructions, names and the form of a reply
_SAFETY = 0.8
_CODE_BYTES_PER_TOKEN = 3.0


class WindowRoom(msgspec.Struct, frozen=True):
    """How many characters of a file one request may show, and how many tokens a reply may have."""

    chars: int
    output_tokens: int

    def halved(self) -> WindowRoom | None:
        """For a model that took less than it said; None when there is nothing left to halve."""
        return WindowRoom(self.chars // 2, self.output_tokens) if self.chars >= 2 * LEAST_CHARS else None


class SourcePiece(msgspec.Struct, frozen=True):
    """Lines of a file with what is defined in them; `is_cut` says that a line of it is too long to show."""

    first_line: int
    last_line: int
    text: str
    definitions: tuple[OutlinedDefinition, ...] = ()
    is_cut: bool = False


def room_in(context_tokens: int | None, bytes_per_token: float) -> WindowRoom:
    """What fits a window of so many tokens; one that nobody knows is taken for a small one."""
    window = context_tokens or _UNKNOWN_WINDOW
    output = max(_LEAST_OUTPUT, min(_MOST_OUTPUT, window // 4))
    density = min(bytes_per_token, _CODE_BYTES_PER_TOKEN)
    chars = int((window - output - _AROUND_TOKENS) * _SAFETY * density)
    return WindowRoom(min(max(chars, LEAST_CHARS), _MOST_CHARS), output)


def pieces_of(file: SourceFile, chars: int) -> list[SourcePiece]:
    lines = [*io.StringIO(file.text, newline="\n")]  # as the syntax tree counts them
    starts = sorted({each.line - 1 for each in file.outline.definitions})
    found: list[SourcePiece] = []
    at = 0
    while at < len(lines):
        end = _end(lines, at, starts, chars)
        inside = (each for each in file.outline.definitions if at < each.line <= end)
        text = "".join(lines[at:end])
        found.append(SourcePiece(at + 1, end, text[:chars], tuple(inside), is_cut=len(text) > chars))
        at = end
    return found


def _end(lines: Sequence[str], at: int, starts: Sequence[int], chars: int) -> int:
    """The line before which a piece ends that begins at one: before a definition, if that is not too near."""
    end, size = at, 0
    while end < len(lines) and size + len(lines[end]) <= chars:
        size += len(lines[end])
        end += 1
    if end == len(lines):
        return end
    end = max(end, at + 1)
    fitting = [start for start in starts if at + (end - at) // 3 < start <= end]
    return fitting[-1] if fitting else end

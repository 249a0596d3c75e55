"""A unified diff as values: for each file its added lines, the lines that it shows, and how many went.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mainspring.patterns import lazy_pattern

_HUNK = lazy_pattern(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = lazy_pattern(rb"\\([0-7]{3}|.)")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_NOTHING = "/dev/null"


class DiffedFile(msgspec.Struct, kw_only=True):
    """What a diff says of one file. `added` and `shown` are lines by their numbers in the new file (`shown`
    has the unchanged ones around as well), `removed` those that went, by their old numbers. `offset` is where
    the file begins in the diff."""

    path: str
    offset: int
    is_new: bool = False
    is_deleted: bool = False
    is_binary: bool = False
    renamed_from: str = ""
    added: dict[int, str] = {}
    shown: dict[int, str] = {}
    removed: dict[int, str] = {}


def parse_diff(text: str) -> list[DiffedFile]:
    """The files of a diff, as git or diff write it. What is neither is passed over."""
    found: list[DiffedFile] = []
    lines = _Lines(text)
    current: DiffedFile | None = None
    for offset, line in lines:
        if line.startswith("diff --git "):
            current = DiffedFile(path=_name_in_header(line), offset=offset)
            found.append(current)
        elif line.startswith("--- ") and lines.next_starts("+++ "):
            _, new = next(lines)
            current = _named(found, current, offset, _name(line[4:]), _name(new[4:]))
        elif current is not None and (hunk := _HUNK.match(line)):
            _read_hunk(current, lines, *(int(each) if each else 1 for each in hunk.groups()))
        elif current is not None:
            _read_header(current, line)
    return [each for each in found if each.path]


class _Lines(Iterator[tuple[int, str]]):
    """The lines of a text with where they begin."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._at = 0
        self._offset = 0

    def __next__(self) -> tuple[int, str]:
        if self._at >= len(self._lines):
            raise StopIteration
        line, offset = self._lines[self._at], self._offset
        self._at += 1
        self._offset += len(line) + 1
        return offset, line

    def next_starts(self, start: str) -> bool:
        return self._at < len(self._lines) and self._lines[self._at].startswith(start)


def _named(
    found: list[DiffedFile], current: DiffedFile | None, offset: int, old: str, new: str
) -> DiffedFile:
    """The file that `---` and `+++` name: that of the header before them, or one without a header."""
    if current is None or current.shown or current.removed or current.is_binary:
        current = DiffedFile(path="", offset=offset)
        found.append(current)
    has_prefixes = all(name == _NOTHING or name[:2] in ("a/", "b/") for name in (old, new))
    old, new = (name[2:] if has_prefixes and name != _NOTHING else name for name in (old, new))
    current.is_new, current.is_deleted = old == _NOTHING, new == _NOTHING
    current.path = old if current.is_deleted else new
    return current


def _read_header(current: DiffedFile, line: str) -> None:
    if line.startswith("rename from "):
        current.renamed_from = _unquoted(line.removeprefix("rename from "))
    elif line.startswith("rename to "):
        current.path = _unquoted(line.removeprefix("rename to "))
    elif line.startswith("new file mode "):
        current.is_new = True
    elif line.startswith("deleted file mode "):
        current.is_deleted = True
    elif line.startswith(("Binary files ", "GIT binary patch")):
        current.is_binary = True


def _read_hunk(
    current: DiffedFile, lines: _Lines, old: int, old_count: int, new: int, new_count: int
) -> None:
    old_end, new_end = old + old_count, new + new_count
    while old < old_end or new < new_end:
        try:
            _, line = next(lines)
        except StopIteration:
            return
        if line.startswith("+"):
            current.added[new] = current.shown[new] = line[1:]
            new += 1
        elif line.startswith("-"):
            current.removed[old] = line[1:]
            old += 1
        elif not line.startswith("\\"):
            current.shown[new] = line[1:]
            old, new = old + 1, new + 1


def _name(text: str) -> str:
    """A name after `---` or `+++`, without a time behind it."""
    return _unquoted(text.partition("\t")[0].rstrip("\r"))


def _name_in_header(line: str) -> str:
    """The name in `diff --git a/NAME b/NAME`, where both are the same."""
    rest = line.removeprefix("diff --git ").strip()
    if rest.startswith('"'):
        return _unquoted(rest[: rest.find('"', 1) + 1]).removeprefix("a/")
    half = rest[: len(rest) // 2]
    return (
        half.removeprefix("a/") if rest[len(half) + 1 :].removeprefix("b/") == half.removeprefix("a/") else ""
    )


def _unquoted(name: str) -> str:
    """A name as git quotes it when it holds unusual characters."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name

    def byte(found: re.Match[bytes]) -> bytes:
        what = found[1]
        return bytes([int(what, 8) & 255]) if len(what) == 3 else _ESCAPES.get(what, what)

    return _ESCAPE.sub(byte, name[1:-1].encode()).decode("utf-8", "replace")

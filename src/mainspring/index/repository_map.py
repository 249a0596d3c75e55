"""What a repository stands on, in a few lines that fit a number of tokens: its folders, and the files and
symbols that most of it uses. Pure, and the same bytes for the same index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from mainspring.context.history import BYTES_PER_TOKEN
from mainspring.index import IndexedSymbol
from mainspring.workspace.affected import is_test

MAX_FILES = 400
_MAX_SYMBOLS = 6
_MAX_FOLDERS = 10
_DEPTH = 2
_LEAST = 3
_BY_WORD = 4.0
_TESTS = frozenset(("test", "tests", "__tests__", "spec", "testing", "fixtures", "testdata"))


class RankedFile(msgspec.Struct, frozen=True):
    """A file with its rank, and those of its symbols that others use, the most used first."""

    path: str
    rank: float
    symbols: Sequence[IndexedSymbol]


def render_map(
    files: Iterable[RankedFile],
    paths: Sequence[str],
    *,
    tokens: int,
    about: str = "",
    more: Sequence[str] = (),
    is_there: Callable[[str], bool] = lambda _: True,
) -> str:
    """The map. Words of `about` lift what has them in its name. `more` are lines about the project that come
    before the files; empty when not one file fits."""
    head = f"Map of the repository ({len(paths)} files), from an index of names; the most used first:"
    lines, left = [head], int(tokens * BYTES_PER_TOKEN) - len(head.encode())
    shown = 0
    for line in (f"folders: {_folders(paths)}", *more):
        left -= _size(line)
        lines += [line] if left > 0 else []
    for each in _ordered(files, about):
        if _is_beside(each.path) or not each.symbols:
            continue
        line = f"{each.path}: {_symbols(each.symbols)}"
        if _size(line) > left:
            break
        if is_there(each.path):
            lines.append(line)
            left -= _size(line)
            shown += 1
    return "\n".join(lines) if shown else ""


def _ordered(files: Iterable[RankedFile], about: str) -> list[RankedFile]:
    words = [word.lower() for word in about.split() if len(word) >= _LEAST]

    def weight(file: RankedFile) -> float:
        names = " ".join([file.path, *(each.full_name for each in file.symbols)]).lower()
        return file.rank * _BY_WORD ** sum(word in names for word in words)

    return sorted(files, key=lambda file: (-weight(file), file.path))


def _symbols(symbols: Sequence[IndexedSymbol]) -> str:
    """By their names; a method stands behind its class."""
    public = [each for each in symbols if not each.name.startswith("_")] or symbols
    return ", ".join(dict.fromkeys(each.full_name for each in public[:_MAX_SYMBOLS]))


def _is_beside(path: str) -> bool:
    """Whether a file is about tests, on which nothing else stands."""
    return is_test(path) or not _TESTS.isdisjoint(path.split("/")[:-1])


def _folders(paths: Sequence[str]) -> str:
    count = Counter("/".join(path.split("/")[:-1][:_DEPTH]) or "." for path in paths)
    most = sorted(count.items(), key=lambda each: (-each[1], each[0]))[:_MAX_FOLDERS]
    return ", ".join(f"{folder} ({number})" for folder, number in sorted(most))


def _size(line: str) -> int:
    return len(line.encode("utf-8", "replace")) + 1

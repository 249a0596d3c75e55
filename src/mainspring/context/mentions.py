"""What a task names in a project: files, modules, symbols and lines, in whatever language it is written.

Pure: it compares the text with the names that there are, and knows no words of any language but what programs
themselves print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from mainspring.patterns import lazy_pattern

_SOURCES = lazy_pattern(
    r"\.(?:pyi?|[mc]?js|jsx|tsx?|go|rs|java|kt|rb|php|[ch]|cc|[ch]pp|cs|swift|sh|bash|lua|exs?|jl|scala|pl|r|vue)$"
)
_ENTRY_STEMS = ("__init__", "index", "mod")

_A = r"A-Za-z0-9_"
_TOKEN = lazy_pattern(rf"[{_A}.@+\-/\\]*[{_A}]")
_LINE = lazy_pattern(r"""["']?(?:, line |:|\(|#L?)(\d{1,7})\b""")
_TEST_ID = lazy_pattern(rf"(?:::[{_A}]+)+")
_SYMBOL = lazy_pattern(
    rf"`(?P<quoted>[A-Za-z_$][{_A}$]*)(?:\(\))?`"
    rf"|(?<![{_A}.])(?P<called>[A-Za-z_][{_A}]*)\(\)"
    rf"|(?<=[A-Za-z0-9_]\.)(?P<member>[A-Za-z_][{_A}]+)"
    rf"|(?<![{_A}])(?P<camel>[A-Za-z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+)(?![{_A}])"
    rf"|(?<![{_A}])(?P<snake>_*[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+)(?![{_A}])"
)
_MAX_TOKENS = 400
_MAX_SYMBOLS = 24
_DEFINED = (
    r"(?:(?:^|[\s;{{(])(?:def|class|function\*?|func(?:\s*\([^)\n]*\))?|fn|struct|enum|interface|type|trait"
    r"|const|let|var|module|object|record|sub|defp?)\s+(?P<a>{names})(?![A-Za-z0-9_$])"
    r"|^\s*(?P<b>{names})\s*\(\)\s*\{{"
    r"|^(?P<c>{names})\s*(?::[^=\n]*)?=(?!=))"
)


class FileMention(msgspec.Struct, frozen=True):
    """A file that a text names, with the lines and the symbols in it that it names. `test_id` is the whole id
    of a test, as test runners take it."""

    path: str
    lines: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()
    test_ids: tuple[str, ...] = ()


class Names:
    """The files of a project, to be found by what a text calls them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        self._by_name: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for path in self._paths:
            name = path.rpartition("/")[2]
            self._by_name.setdefault(name, []).append(path)
            if is_source(name):
                for stem in _module_of(path)[-1:]:
                    self._by_stem.setdefault(stem, []).append(path)

    def in_text(self, text: str) -> list[FileMention]:
        """The files that are named by path, by a name that only one of them has, or as a module, in the order
        in which they are named."""
        found: dict[str, FileMention] = {}
        for number, match in enumerate(_TOKEN.finditer(text)):
            if number >= _MAX_TOKENS:
                break
            token = match[0].replace("\\", "/")
            path, symbol = self.by_path(token), ""
            if not path and "." in token.strip("."):
                path, symbol = self.by_module(token)
            if path:
                mention = found.get(path, FileMention(path))
                found[path] = _with_details(mention, text, match.end(), symbol)
        for name, paths in self._by_name.items():
            if not _TOKEN.fullmatch(name) and name in text and len(paths) == 1:
                found.setdefault(paths[0], FileMention(paths[0]))
        return list(found.values())

    def by_path(self, token: str) -> str:
        """The file that a path means: the one that ends most like it, if only one does."""
        parts = [part for part in token.split("/") if part not in ("", ".")]
        if not parts or not _is_file_name(parts):
            return ""
        candidates = self._by_name.get(parts[-1], [])
        if "/".join(parts) in candidates:
            return "/".join(parts)
        return _only_best({path: _common_tail(path.split("/"), parts) for path in candidates})

    def by_module(self, token: str) -> tuple[str, str]:
        """The file of a dotted module, and what is named in it."""
        parts = token.strip("./").split(".")
        if not all(part.isidentifier() for part in parts):
            return "", ""
        for length in range(len(parts), min(1, len(parts) - 1), -1):
            wanted = parts[:length]
            scores = {
                path: score
                for path in self._by_stem.get(wanted[-1], [])
                if (score := _common_tail(_module_of(path), wanted)) == length
            }
            if found := _only_best(scores):
                return found, parts[length] if length < len(parts) else ""
        return "", ""

    def by_stem(self, name: str) -> str:
        """The only source file whose name without its ending is this."""
        paths = self._by_stem.get(name, [])
        return paths[0] if len(paths) == 1 else ""


def names_files(text: str) -> bool:
    """Whether anything in it could be a file or a module."""
    return any(len(token) > 1 and not token.isalnum() for token in _TOKEN.findall(text))


def symbols_in(text: str) -> list[str]:
    """What reads like the name of something in code, the first ones."""
    found = (match[match.lastgroup or 0] for match in _SYMBOL.finditer(text))
    return [name for name in dict.fromkeys(found) if len(name) > 1 and not is_source(f".{name}")][
        :_MAX_SYMBOLS
    ]


def definitions(names: Sequence[str]) -> re.Pattern[str]:
    """Finds where one of these names is defined, in most languages; `defined_name` tells which."""
    joined = "|".join(map(re.escape, names))
    return re.compile(_DEFINED.format(names=joined), re.MULTILINE)


def defined_name(match: re.Match[str]) -> str:
    return match["a"] or match["b"] or match["c"]


def is_source(path: str) -> bool:
    return _SOURCES.search(path) is not None


def _with_details(mention: FileMention, text: str, end: int, symbol: str) -> FileMention:
    """What stands directly behind a name: a line, or the id of a test."""
    symbols, ids, lines = mention.symbols, mention.test_ids, mention.lines
    if test := _TEST_ID.match(text, end):
        ids = (*ids, mention.path + test[0])
        symbols = (*symbols, test[0].rpartition("::")[2])
    elif line := _LINE.match(text, end):
        lines = (*lines, int(line[1]))
    return FileMention(mention.path, lines, (*symbols, symbol) if symbol else symbols, ids)


def _is_file_name(parts: Sequence[str]) -> bool:
    """Whether it is written like a file: a word alone, as any language has, is not."""
    name = parts[-1]
    return len(parts) > 1 or "." in name or name[:1].isupper()


def _module_of(path: str) -> list[str]:
    parts = path.rpartition(".")[0].split("/")
    return parts[:-1] if parts[-1] in _ENTRY_STEMS and len(parts) > 1 else parts


def _common_tail(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for one, other in zip(reversed(first), reversed(second), strict=False):
        if one != other:
            break
        count += 1
    return count


def _only_best(scores: dict[str, int]) -> str:
    best = max(scores.values(), default=0)
    paths = [path for path, score in scores.items() if score == best]
    return paths[0] if best and len(paths) == 1 else ""

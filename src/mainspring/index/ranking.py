"""How much of a repository stands on each file and symbol: PageRank over uses of names. Pure, and always the
same for the same files: nothing is drawn by lot, and ties go by order.

A name that many files define says little about which of them is meant, so it counts for little; so does one
that a file uses without importing it, or its module, from where it is defined.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

_DAMPING = 0.85
_ROUNDS, _FEW_ROUNDS = 20, 6
_MANY_LINKS = 400_000
_MAX_DEFINITIONS = 5
_LEAST_NAME = 3
_OF_MEMBER, _OF_PRIVATE = 0.5, 0.1
_BY_NAME, _IN_FOLDER, _ELSEWHERE = 0.5, 0.4, 0.02
_WORD = re.compile(r"\w+")
_KINDS = frozenset(
    ("function", "method", "class", "interface", "struct", "enum", "type", "constant", "macro")
)


class UsingFile(msgspec.Struct, frozen=True, gc=False):
    """A source file: its number, the names in it with their lines, and the text of its imports."""

    id: int
    path: str
    names: Mapping[str, Sequence[int]]
    imports: str


def rank(
    defined: Iterable[tuple[int, int, str, str, str]], used: Iterable[UsingFile], paths: Mapping[int, str]
) -> tuple[dict[int, float], dict[int, float]]:
    """A score for each file and for each symbol, from what is defined (symbol, file, name, kind, parent) and
    used."""
    where: defaultdict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for symbol, file, name, kind, parent in defined:
        if kind in _KINDS and len(name) >= _LEAST_NAME and not name.startswith("__"):
            where[name].append((symbol, file, _OF_MEMBER if parent else 1.0))
    known = {name: places for name, places in where.items() if len(places) <= _MAX_DEFINITIONS}
    links: dict[int, dict[int, float]] = {}
    by_symbol: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for user in used:
        out: defaultdict[int, float] = defaultdict(float)
        words = set(_WORD.findall(user.imports))
        for name in user.names.keys() & known.keys():
            uses = math.sqrt(len(user.names[name])) * (_OF_PRIVATE if name.startswith("_") else 1.0)
            for symbol, file, share in known[name]:
                if file != user.id:
                    near = _nearness(name, user.path, paths[file], words)
                    weight = uses * share * near / len(known[name]) ** 2
                    out[file] += weight
                    by_symbol[symbol].append((user.id, weight))
        links[user.id] = {file: out[file] for file in sorted(out)}
    ranks = _spread(links)
    sums = {user: sum(out.values()) or 1.0 for user, out in links.items()}
    scores = {
        symbol: sum(ranks[user] * weight / sums[user] for user, weight in users)
        for symbol, users in by_symbol.items()
    }
    return ranks, scores


def _nearness(name: str, user: str, path: str, words: Collection[str]) -> float:
    """How likely a file means the definition in another one by a name."""
    folder, _, file = path.rpartition("/")
    stem = file.partition(".")[0]
    module = folder.rpartition("/")[2] if stem in ("__init__", "index", "mod", "lib") else stem
    if module in words:
        return 1.0
    if name in words:
        return _BY_NAME
    return _IN_FOLDER if folder == user.rpartition("/")[0] else _ELSEWHERE


def _spread(links: Mapping[int, Mapping[int, float]]) -> dict[int, float]:
    files = sorted({*links, *(to for out in links.values() for to in out)})
    if not files:
        return {}
    ranks = dict.fromkeys(files, 1.0 / len(files))
    shares = {
        user: [(to, weight / total) for to, weight in out.items()]
        for user, out in links.items()
        if (total := sum(out.values()))
    }
    rounds = _ROUNDS if sum(map(len, shares.values())) < _MANY_LINKS else _FEW_ROUNDS
    for _ in range(rounds):
        idle = sum(ranks[file] for file in files if file not in shares)
        base = (1 - _DAMPING + _DAMPING * idle) / len(files)
        new = dict.fromkeys(files, base)
        for user, out in shares.items():
            given = _DAMPING * ranks[user]
            for to, share in out:
                new[to] += given * share
        ranks = new
    return ranks

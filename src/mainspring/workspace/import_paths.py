"""Which files of a repository an import names, for languages that import by path: JavaScript and TypeScript,
C and C++, Ruby, shell. Pure: the names of all files, the imports and the packages are given.

A name that stands for no file (of a package elsewhere, the system) gives nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from posixpath import join, normpath

from mainspring.patterns import lazy_pattern

SCRIPTS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".d.ts")
HEADERS = (".h", ".hh", ".hpp", ".hxx")
_C = (".c", ".cc", ".cpp", ".cxx", *HEADERS)
_ENDS = {**dict.fromkeys(SCRIPTS, SCRIPTS), **dict.fromkeys(_C, ()), ".rb": (".rb",), ".sh": (), ".bash": ()}
_QUOTED = lazy_pattern(r"""["'<]([^"'<>]+)["'>]\s*\)?;?$""")
_WORD = lazy_pattern(r"(?:source|\.)\s+[\"']?(?:\$\{?\w+\}?/|\$\([^)]*\)/)?([^\s\"']+)")
_ALIAS = ("@/", "~/", "#/", "src/")
_MAX_DEPTH = 8


def imports_by_path(path: str) -> bool:
    return _suffix(path) in _ENDS


class ImportPaths:
    """`packages` are folders by the name that their `package.json` gives them."""

    def __init__(self, paths: Sequence[str], packages: Mapping[str, str] | None = None) -> None:
        self._paths = frozenset(paths)
        self._packages = packages or {}
        self._by_name: defaultdict[str, list[str]] = defaultdict(list)
        for path in paths:
            self._by_name[path.rpartition("/")[2]].append(path)

    def targets(self, path: str, text: str) -> list[str]:
        """The files that one import in a file means; of a header also what has its name and implements it."""
        suffix = _suffix(path)
        found = (_WORD if suffix in (".sh", ".bash") else _QUOTED).search(text)
        if not found:
            return []
        if suffix in SCRIPTS:
            target = self._script(path, found[1])
            return [target] if target else []
        target = self._file(path, found[1], _ENDS[suffix])
        if not target:
            return []
        return [target, *self._implementing(target)] if _suffix(target) in HEADERS else [target]

    def _script(self, path: str, name: str) -> str:
        if name.startswith("."):
            return self._with_end(normpath(join(path, "..", name)))
        if name.startswith(_ALIAS):
            return self._ending(name.removeprefix("@/").removeprefix("~/").removeprefix("#/"))
        scope = "/".join(name.split("/")[: 2 if name.startswith("@") else 1])
        folder = self._packages.get(scope)
        if folder is None:
            return ""
        rest = name[len(scope) + 1 :]
        places = (rest, f"src/{rest}") if rest else ("index", "src/index", "lib/index", "src/main", "main")
        return next((found for each in places if (found := self._with_end(normpath(join(folder, each))))), "")

    def _with_end(self, whole: str) -> str:
        if whole in self._paths:
            return whole
        stem = whole[: -len(_suffix(whole))] if _suffix(whole) in SCRIPTS else whole
        tried = [f"{each}{end}" for each in dict.fromkeys((whole, stem)) for end in SCRIPTS]
        tried += [f"{whole}/index{end}" for end in SCRIPTS]
        return next((each for each in tried if each in self._paths), "")

    def _ending(self, name: str) -> str:
        """Of an alias, which a setting explains: the one file that its path ends with."""
        last = name.rpartition("/")[2]
        tried = [f"{last}{end}" for end in ("", *SCRIPTS)] + [f"index{end}" for end in SCRIPTS]
        found = [
            path
            for each in tried
            for path in self._by_name.get(each, ())
            if f"/{path}".endswith((f"/{name}{each[len(last) :]}", f"/{name}/{each}"))
        ]
        return found[0] if len(set(found)) == 1 else ""

    def _file(self, path: str, name: str, ends: Sequence[str]) -> str:
        beside = normpath(join(path, "..", name))
        tried = [whole + end for whole in (beside, normpath(name)) for end in ("", *ends)]
        if found := next((each for each in tried if each in self._paths), ""):
            return found
        plain = normpath(name).removeprefix("../")
        names = [plain, *(plain + end for end in ends)]
        below = [
            each
            for one in names
            for each in self._by_name.get(one.rpartition("/")[2], ())
            if f"/{each}".endswith(f"/{one}")
        ]
        return below[0] if len(below) == 1 else ""

    def _implementing(self, header: str) -> list[str]:
        stem = header.rpartition("/")[2].rpartition(".")[0]
        named = [path for end in _C[:4] for path in self._by_name.get(f"{stem}{end}", ())]
        beside = [path for path in named if path.rpartition("/")[0] == header.rpartition("/")[0]]
        return beside or (named if len(named) == 1 else [])


def through_reexports(
    imports: Mapping[str, Sequence[str]], exported: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Who imports a file that hands on what another one has, imports that as well."""
    return {path: tuple(sorted(_all(targets, exported))) for path, targets in imports.items()}


def _all(targets: Sequence[str], exported: Mapping[str, Sequence[str]]) -> set[str]:
    found, new = set(targets), set(targets)
    for _ in range(_MAX_DEPTH):
        new = {each for path in new for each in exported.get(path, ())} - found
        if not new:
            break
        found |= new
    return found


def _suffix(path: str) -> str:
    lower = path.lower()
    return ".d.ts" if lower.endswith(".d.ts") else lower[lower.rfind(".") :] if "." in lower else ""

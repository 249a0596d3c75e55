"""What files of a project import from each other by name, and which names a file has for others. Pure: Python
is read as a tree; of scripts the imports that begin a line, and what `exports` found. What cannot be known
from the text alone (`import *`, names that are put together, exports of another kind) is not guessed.
"""

from __future__ import annotations

import ast
import posixpath
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from mainspring.patterns import lazy_pattern

PYTHON = (".py",)
SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_TYPED = (".ts", ".mts", ".cts", ".tsx")
_ROOTS = ("", "src", "lib")
_FROM = lazy_pattern(
    r"(?m)^[ \t]*(?:import|export)\s+(?:type\s+)?(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\})?\s*"
    r"""from\s*["'](\.[^"'\n]*)["']"""
)
_REQUIRE = lazy_pattern(
    r"""(?m)^[ \t]*(?:const|let|var)\s*\{([^}]*)\}\s*=\s*require\(\s*["'](\.[^"'\n]*)["']\s*\)"""
)
_UNKNOWN = lazy_pattern(
    r"\bexport\s*(?:\*|=|(?:const|let|var)\s*[\[{]|(?:declare|import|namespace|module)\b)"
    r"|\bexports\s*=\s*[^{\s=]|\bexports\["
)
_COMMON = lazy_pattern(r"\bexports\b")


class ImportedNames(msgspec.Struct, frozen=True):
    """One import, or one name that is used of an imported module. `files` are the paths that it may mean, the
    first that exists counts; `inside` are folders whose files may be meant by a name as well. A used name
    says nothing where the module itself (`module`) is another thing that one of `holders` defines."""

    line: int
    names: tuple[str, ...]
    files: tuple[str, ...]
    inside: tuple[str, ...] = ()
    module: str = ""
    holders: tuple[str, ...] = ()


def imports_of(path: str, text: str) -> list[ImportedNames]:
    """Of Python and scripts; nothing where the file cannot be read."""
    return list(_python_imports(path, text) if path.endswith(PYTHON) else _script_imports(path, text))


def python_names(text: str) -> frozenset[str] | None:
    """The names at the top of a module; None where they are not all known."""
    tree = _parsed(text)
    if tree is None or "globals()" in text or "sys.modules[" in text:
        return None
    found: set[str] = set()
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
                if not isinstance(node, ast.ClassDef):
                    found |= {
                        each for one in ast.walk(node) if isinstance(one, ast.Global) for each in one.names
                    }
                continue
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {each.asname or each.name.partition(".")[0] for each in names}
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                found.add(name)
            case _:
                pass
        waiting += ast.iter_child_nodes(node)
    return None if found & {"*", "__getattr__"} else frozenset(found)


def script_names(text: str, exported: Collection[str]) -> frozenset[str] | None:
    """The same of a script, of which these exports were found."""
    is_common = bool(_COMMON.search(text))
    if _UNKNOWN.search(text) or (is_common and ("..." in text or "Object." in text)):
        return None
    return frozenset((*exported, "default") if is_common else exported)


def _python_imports(path: str, text: str) -> Iterator[ImportedNames]:
    tree = _parsed(text)
    if tree is None:
        return
    tried = {
        id(below)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        for each in node.body
        for below in ast.walk(each)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in tried:
            names = tuple(each.name for each in node.names if not each.name.startswith(("*", "__")))
            bases = _bases(path, node)
            if names and bases:
                yield ImportedNames(node.lineno, names, _files(bases), tuple(bases))
    yield from _used(path, tree, tried)


class _Module(NamedTuple):
    """An imported module: where it may lie, its name, and the files of the package that it comes from."""

    bases: list[str]
    name: str
    holders: tuple[str, ...] = ()


def _used(path: str, tree: ast.Module, tried: Collection[int]) -> Iterator[ImportedNames]:
    """The names that are used of imported modules; what is set on a module is known."""
    modules, told = _modules(path, tree), set[tuple[str, str]]()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ctx) if name in modules:
                is_known = (name, attr) in told or attr.startswith("__")
                told.add((name, attr))
                if not is_known and isinstance(ctx, ast.Load) and id(node) not in tried:
                    bases, module, holders = modules[name]
                    yield ImportedNames(node.lineno, (attr,), _files(bases), tuple(bases), module, holders)
            case _:
                pass


def _modules(path: str, tree: ast.Module) -> dict[str, _Module]:
    """What may be a module, by the name that it has in a file."""
    found: dict[str, _Module] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                name = each.asname or each.name
                if "." not in name and (bases := _absolute(each.name.replace(".", "/"))):
                    found[name] = _Module(bases, name)
        elif isinstance(node, ast.ImportFrom) and (above := _bases(path, node)):
            for each in node.names:
                bases = [f"{base}/{each.name}" for base in above]
                found[each.asname or each.name] = _Module(bases, each.name, _files(above))
    others = _bound_twice(tree)
    return {name: module for name, module in found.items() if name not in others}


def _bound_twice(tree: ast.Module) -> set[str]:
    """Names that may be another thing than an imported module somewhere in a file."""
    counts: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                counts[name] += 2
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                counts[name] += 2
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                counts.update({each.asname or each.name.partition(".")[0] for each in names})
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                counts[name] += 2
            case _:
                pass
    return {name for name, count in counts.items() if count > 1}


def _files(bases: Sequence[str]) -> tuple[str, ...]:
    return tuple(file for base in bases for file in (f"{base}.py", f"{base}/__init__.py"))


def _absolute(below: str) -> list[str]:
    is_own = below.partition("/")[0] in sys.stdlib_module_names
    return [] if is_own else [posixpath.join(root, below) for root in _ROOTS]


def _bases(path: str, node: ast.ImportFrom) -> list[str]:
    """Where a module may lie, without its ending; nothing for those of Python itself."""
    below = (node.module or "").replace(".", "/")
    if not node.level:
        return _absolute(below)
    folder = posixpath.normpath(posixpath.join(posixpath.dirname(path), *[".."] * (node.level - 1), below))
    return [] if folder.startswith("..") or folder == "." else [folder]


def _script_imports(path: str, text: str) -> Iterator[ImportedNames]:
    for found in _FROM.finditer(text):
        default, braces, place = found[1] or "", found[2] or "", found[3]
        names = [*(["default"] if default not in ("", "type") else []), *_in_braces(braces, " as ")]
        yield from _script_import(path, text, found.start(), names, place)
    for found in _REQUIRE.finditer(text):
        names = [each.partition("=")[0].strip() for each in _in_braces(found[1], ":")]
        yield from _script_import(path, text, found.start(), names, found[2])


def _script_import(
    path: str, text: str, start: int, names: Sequence[str], place: str
) -> Iterator[ImportedNames]:
    base = posixpath.normpath(posixpath.join(posixpath.dirname(path), place))
    start += len(text[start:]) - len(text[start:].lstrip())
    if names and not base.startswith(".."):
        files = tuple(_script_files(base, is_typed=path.endswith(_TYPED)))
        yield ImportedNames(text.count("\n", 0, start) + 1, tuple(names), files)


def _script_files(base: str, *, is_typed: bool) -> Iterator[str]:
    """Types stand beside a script in a file of their own."""
    stem, ending = posixpath.splitext(base)
    endings = [*_TYPED, ".d.ts", *SCRIPTS] if is_typed else [*SCRIPTS]
    if ending in SCRIPTS:
        other = [f"{stem}{ending.replace('js', 'ts')}", *([f"{stem}.tsx"] if ending == ".js" else [])]
        yield from ([*other, f"{stem}.d.ts", base] if is_typed else [base, *other])
    yield from (f"{base}{each}" for each in endings)
    yield from (f"{base}/index{each}" for each in endings)


def _in_braces(text: str, renamed: str) -> list[str]:
    """The names as the other file has them."""
    parts = (each.strip().removeprefix("type ").partition(renamed)[0].strip() for each in text.split(","))
    return [each for each in parts if each and each.replace("_", "a").replace("$", "a").isalnum()]


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None

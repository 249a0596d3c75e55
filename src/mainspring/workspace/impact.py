"""What a change of files reaches: public API, callers, importers and tests, from syntax trees alone.

Names are not resolved as an interpreter would: a caller is a file that imports the module, directly or by a
package above it, and uses the name. Pure: facts about Python files are made here, those about others by
`impact_by_tree`, and given back for comparing.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from mainspring.workspace.affected import is_test

Semver = Literal["major", "minor", "patch"]
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ROOTS = ("src/", "lib/")
_SHAPES = ("type", "interface", "struct", "enum", "value")


class FunctionParameter(msgspec.Struct, frozen=True, array_like=True):
    name: str
    kind: str
    is_required: bool = False
    type: str = ""


class CodeDefinition(msgspec.Struct, frozen=True, array_like=True):
    """A function, class or method: where it stands, what it takes, and a hash of its text. `is_default`: of
    a script, which others import under names of their own."""

    line: int
    kind: str
    parameters: tuple[FunctionParameter, ...]
    text: str
    is_public: bool = True
    is_default: bool = False


class FileFacts(msgspec.Struct, frozen=True, array_like=True):
    """What one file defines, imports and uses. A file that cannot be read as Python has none of it."""

    definitions: dict[str, CodeDefinition] = {}
    imports: tuple[str, ...] = ()
    uses: dict[str, int] = {}
    is_read: bool = True


class ApiChange(msgspec.Struct, frozen=True):
    """What became of a public name; `why` is about a changed one."""

    path: str
    name: str
    change: Literal["added", "removed", "changed"]
    line: int = 0
    why: str = ""
    semver: Semver = "patch"


class CallingPlace(msgspec.Struct, frozen=True):
    """`is_by_name`: nothing was looked at but the name, which may mean something else there."""

    path: str
    line: int
    name: str
    is_by_name: bool = False


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """All that a change reaches; `not_read` names changed files that no rule here knows, and why."""

    changed: tuple[str, ...]
    api: tuple[ApiChange, ...] = ()
    callers: tuple[CallingPlace, ...] = ()
    importers: tuple[str, ...] = ()
    reached: int = 0
    tests: tuple[str, ...] = ()
    semver: Semver = "patch"
    not_read: tuple[str, ...] = ()


def facts_of(path: str, text: str) -> FileFacts:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return FileFacts(is_read=False)
    uses: dict[str, int] = {}
    imports: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, lineno=line) | ast.Attribute(attr=name, lineno=line):
                uses.setdefault(name, line)
            case ast.Import(names=names):
                imports |= {each.name for each in names}
            case ast.ImportFrom(names=names, lineno=line):
                base = _base(path, node)
                imports |= {base, *(f"{base}.{each.name}" for each in names)}
                for each in names:
                    uses.setdefault(each.name, line)
            case _:
                pass
    return FileFacts(dict(_definitions(tree.body, "")), tuple(sorted(imports - {""})), uses)


def impact_of(
    imports: Mapping[str, tuple[str, ...]],
    files: Mapping[str, FileFacts],
    before: Mapping[str, FileFacts | None],
    not_read: Sequence[str] = (),
) -> Impact:
    """What the files of `before` reach, as they were (None: not there) and as `files` has them now. `imports`
    has those of all files; facts are only asked for where they are needed."""
    modules = {module: path for path in (*imports, *before) for module in _modules(path)}
    importing: defaultdict[str, set[str]] = defaultdict(set)
    for path, names in imports.items():
        for name in names:
            if (target := modules.get(name)) and target != path:
                importing[target].add(path)
    changed = sorted(before)
    own = [path for path in changed if not is_test(path)]
    api = [each for path in own for each in _api(path, before[path], files.get(path))]
    direct = {path for each in changed for path in importing[each]} - set(changed)
    reached = _reached(changed, importing)
    tests = {path for path in reached | set(changed) if is_test(path) and path in imports}
    hints = {each.semver for each in api}
    return Impact(
        changed=tuple(changed),
        api=tuple(api),
        callers=tuple(_callers(changed, before, files, importing)),
        importers=tuple(sorted(path for path in direct if not is_test(path))),
        reached=len(reached - set(changed)),
        tests=tuple(sorted(tests)),
        semver="major" if "major" in hints else "minor" if "minor" in hints else "patch",
        not_read=tuple(not_read),
    )


def all_changed(facts: FileFacts) -> FileFacts:
    """The same definitions, all of them taken as changed inside."""
    definitions = {name: msgspec.structs.replace(each, text="") for name, each in facts.definitions.items()}
    return msgspec.structs.replace(facts, definitions=definitions)


def with_callers(found: Impact, callers: Sequence[CallingPlace]) -> Impact:
    """With places that were found by names alone; tests among them are told as tests."""
    tests = {*found.tests, *(each.path for each in callers if is_test(each.path))}
    places = (*found.callers, *(each for each in callers if not is_test(each.path)))
    return msgspec.structs.replace(found, callers=places, tests=tuple(sorted(tests)))


def _reached(changed: Collection[str], importing: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(changed)
    while todo:
        for path in importing.get(todo.pop(), ()):
            if path not in found:
                found.add(path)
                todo.append(path)
    return found


def _callers(
    changed: Sequence[str],
    before: Mapping[str, FileFacts | None],
    files: Mapping[str, FileFacts],
    importing: Mapping[str, set[str]],
) -> Iterator[CallingPlace]:
    """The places that use a definition whose text is another one now, or that is gone."""
    for path in changed:
        old, new = before[path] or FileFacts(), files.get(path) or FileFacts()
        names = [name for name, each in old.definitions.items() if _text(new, name) != each.text]
        for user in sorted(importing.get(path, ())):
            uses = files[user].uses
            for name in names:
                short = name.rpartition(".")[2]
                used = f"default:{path}" if old.definitions[name].is_default else short
                if (used in uses or short in uses) and not short.startswith("__"):
                    yield CallingPlace(path=user, line=uses.get(short) or uses[used], name=name)


def _text(facts: FileFacts, name: str) -> str:
    found = facts.definitions.get(name)
    return found.text if found else ""


def _api(path: str, before: FileFacts | None, after: FileFacts | None) -> Iterator[ApiChange]:
    old, new = (
        {name: each for name, each in facts.definitions.items() if each.is_public and _is_public(path, name)}
        for facts in (before or FileFacts(), after or FileFacts())
    )
    for name, each in old.items():
        now = new.get(name)
        if now is None:
            yield ApiChange(path=path, name=name, change="removed", line=each.line, semver="major")
        elif found := _changed(each, now):
            yield ApiChange(
                path=path, name=name, change="changed", line=now.line, why=found[0], semver=found[1]
            )
    for name, each in new.items():
        if name not in old:
            yield ApiChange(path=path, name=name, change="added", line=each.line, semver="minor")


def _is_public(path: str, name: str) -> bool:
    if not path.endswith(".py"):
        return True
    parts = [*path.removesuffix(".py").split("/"), *name.split(".")]
    return not any(part.startswith("_") and not part.startswith("__") for part in parts)


def _changed(before: CodeDefinition, now: CodeDefinition) -> tuple[str, Semver] | None:
    """What is different for those who call it."""
    if before.kind != now.kind:
        return f"{before.kind}, now {now.kind}", "major"
    if before.kind in _SHAPES and before.text not in ("", now.text):
        return "its definition is another one", "patch"
    return _changed_parameters(before, now)


def _changed_parameters(before: CodeDefinition, now: CodeDefinition) -> tuple[str, Semver] | None:
    old, new = ({each.name: each for each in side.parameters} for side in (before, now))
    for name, each in old.items():
        if name not in new:
            return f"parameter {name} is gone", "major"
        if new[name].type != each.type:
            return f"parameter {name} is `{new[name].type}`, was `{each.type}`", "major"
        if new[name].kind != each.kind:
            return f"parameter {name} is {new[name].kind} now", "major"
        if new[name].is_required and not each.is_required:
            return f"parameter {name} has no default any more", "major"
    order = [each.name for each in before.parameters if each.kind == "positional"]
    if order != [each.name for each in now.parameters if each.kind == "positional"][: len(order)]:
        return "its parameters stand in another order", "major"
    added = [each for name, each in new.items() if name not in old]
    if any(each.is_required for each in added):
        return f"parameter {next(each.name for each in added if each.is_required)} is required", "major"
    if added:
        return f"parameter {added[0].name} is new", "minor"
    return None


def _definitions(body: Sequence[ast.stmt], above: str) -> Iterator[tuple[str, CodeDefinition]]:
    for item in body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            kind = "function" if isinstance(item, ast.FunctionDef) else "async function"
            yield f"{above}{item.name}", _definition(item, kind, tuple(_parameters(item)))
        elif isinstance(item, ast.ClassDef):
            yield f"{above}{item.name}", _definition(item, "class", ())
            yield from _definitions(item.body, f"{above}{item.name}.")


def _definition(
    item: _Function | ast.ClassDef, kind: str, parameters: tuple[FunctionParameter, ...]
) -> CodeDefinition:
    text = hashlib.blake2b(ast.dump(item).encode("utf-8", "replace"), digest_size=8).hexdigest()
    return CodeDefinition(line=item.lineno, kind=kind, parameters=parameters, text=text)


def _parameters(item: _Function) -> Iterator[FunctionParameter]:
    given = item.args
    positional = [*given.posonlyargs, *given.args]
    first_default = len(positional) - len(given.defaults)
    for number, each in enumerate(positional):
        yield FunctionParameter(each.arg, "positional", is_required=number < first_default)
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield FunctionParameter(each.arg, "keyword", is_required=default is None)
    if given.vararg:
        yield FunctionParameter(f"*{given.vararg.arg}", "rest")
    if given.kwarg:
        yield FunctionParameter(f"**{given.kwarg.arg}", "rest")


def _modules(path: str) -> list[str]:
    """The names under which a file may be imported."""
    if not path.endswith(".py"):
        return [path]
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return [dotted.partition(".")[2], dotted] if path.startswith(_ROOTS) else [dotted]


def _base(path: str, node: ast.ImportFrom) -> str:
    """The module that an import names, also a relative one."""
    if not node.level:
        return node.module or ""
    package = _modules(path)[0].split(".")
    drop = node.level - (1 if path.endswith("/__init__.py") else 0)
    parts = package[: len(package) - drop] if drop else package
    return ".".join([*parts, *([node.module] if node.module else [])])

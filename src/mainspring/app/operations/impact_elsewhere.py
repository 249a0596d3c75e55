"""What changed files in other languages than Python reach, by their grammars and the index of the
repository. Imports that name a file (scripts, C, Ruby) are followed; in the other languages callers are the
files in which the name of something changed stands, and are told as that.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mainspring.app.index import RepositoryIndex, is_code, repository_index
from mainspring.checks import NotChecked
from mainspring.checks.grammars import OUTLINED
from mainspring.disk.untrusted import read_untrusted, read_untrusted_text
from mainspring.errors import PathRefused
from mainspring.index.store import IndexStore
from mainspring.settings import Config
from mainspring.workspace.git import Git
from mainspring.workspace.impact import CallingPlace, FileFacts, all_changed
from mainspring.workspace.impact_by_tree import default_imports, facts_of_tree
from mainspring.workspace.import_paths import SCRIPTS, ImportPaths, imports_by_path, through_reexports

_MAX_BYTES = 1 << 20
_MAX_NEW = 3_000
_MAX_CALLERS = 200


class ReachElsewhere(msgspec.Struct, kw_only=True):
    """For `impact_of`: imports of all files, facts of those that matter, what changed files were; and callers
    by name alone."""

    imports: dict[str, tuple[str, ...]] = {}
    files: dict[str, FileFacts] = {}
    before: dict[str, FileFacts | None] = {}
    callers: list[CallingPlace] = []
    not_read: list[str] = []


async def reach_elsewhere(
    config: Config, root: Path, base: str, paths: Sequence[str], *, is_named: bool
) -> ReachElsewhere:
    """Of changed source files, compared with a commit; of those that a person names, also when nothing
    changed in them."""
    found = ReachElsewhere()
    readable = [path for path in paths if _suffix(path) in OUTLINED]
    found.not_read += [f"{path}: no grammar reads its API" for path in paths if path not in readable]
    if not readable:
        return found
    async with repository_index(config, root) as index:
        git = Git(root, config.environment)
        if not index.is_there and await asyncio.to_thread(_is_large, git):
            why = "the repository is large and has no index; make one: mainspring index"
            found.not_read += [f"{path}: {why}" for path in readable]
            return found
        for path in readable:
            await _compare(index, git, base, path, found)
            before = found.before.get(path)
            if is_named and before and before == found.files.get(path):
                found.before[path] = all_changed(before)
        if (await index.refresh()).is_busy:
            found.not_read.append("callers of other files: another process updates the index just now")
            return found
        await asyncio.to_thread(_reach, index, root, found)
    return found


def _is_large(git: Git) -> bool:
    names = git.run("ls-files", "-z", "-co", "--exclude-standard", check=False).split(b"\0")
    return sum(is_code(name.decode("utf-8", "replace")) for name in names) > _MAX_NEW


async def _compare(index: RepositoryIndex, git: Git, base: str, path: str, found: ReachElsewhere) -> None:
    """What a file was and is; one that cannot be read has no facts."""
    (old,) = await asyncio.to_thread(lambda: list(git.objects([f"{base}:{path}"])))
    try:
        now = read_untrusted(index.root / path, max_bytes=_MAX_BYTES, root=index.root)
    except (OSError, PathRefused):
        now = None
    try:
        found.before[path] = await _facts(index, path, old) if old is not None else None
        if now is not None:
            found.files[path] = await _facts(index, path, now)
    except NotChecked as error:
        found.before.pop(path, None)
        found.not_read.append(f"{path}: {error}")


async def _facts(index: RepositoryIndex, path: str, content: bytes) -> FileFacts:
    return facts_of_tree(await index.outline(path, content), content)


def _reach(index: RepositoryIndex, root: Path, found: ReachElsewhere) -> None:
    with index.store() as store:
        _follow_imports(store, root, found)
        _look_for_names(store, found)


def _follow_imports(store: IndexStore, root: Path, found: ReachElsewhere) -> None:
    changed = [path for path in found.before if imports_by_path(path)]
    if not changed:
        return
    paths = store.paths()
    resolver = ImportPaths([*paths, *(path for path in changed if path not in paths)], _packages(root, paths))
    targets: dict[str, list[tuple[int, str, list[str]]]] = {}
    exported: defaultdict[str, list[str]] = defaultdict(list)
    for path, imports in store.imports():
        if imports_by_path(path):
            targets[path] = [(each.line, each.text, resolver.targets(path, each.text)) for each in imports]
            for _, text, named in targets[path]:
                exported[path] += named if text.startswith("export") else []
    direct = {path: [one for *_, named in each for one in named] for path, each in targets.items()}
    found.imports = dict.fromkeys((path for path in paths if imports_by_path(path)), ())
    found.imports |= through_reexports(direct, exported)
    for path, imported in found.imports.items():
        if path not in found.files and not found.before.keys().isdisjoint(imported):
            uses = {name: lines[0] for name, lines in store.names_in(path).items()}
            found.files[path] = FileFacts(uses=uses | default_imports(targets[path]))


def _look_for_names(store: IndexStore, found: ReachElsewhere) -> None:
    """Callers in languages whose imports name no file."""
    for path, before in found.before.items():
        if imports_by_path(path) or before is None:
            continue
        now = found.files.get(path, FileFacts()).definitions
        names = [name for name, each in before.definitions.items() if _text(now, name) != each.text]
        found.callers += [
            CallingPlace(path=used.path, line=used.lines[0], name=name, is_by_name=True)
            for name in names
            for used in store.references(name.rpartition(".")[2])
            if used.path != path and _suffix(used.path) == _suffix(path)
        ][:_MAX_CALLERS]


def _text(definitions: Mapping[str, Any], name: str) -> str:
    return definitions[name].text if name in definitions else ""


class _Package(msgspec.Struct):
    name: str = ""


def _packages(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """The folders of a repository's own packages, by their names."""
    found: dict[str, str] = {}
    for path in {f"{folder}/package.json".lstrip("/") for folder in _folders(paths)}:
        try:
            package = msgspec.json.decode(
                read_untrusted_text(root / path, max_bytes=_MAX_BYTES, root=root), type=_Package
            )
        except (OSError, PathRefused, msgspec.MsgspecError, RecursionError):
            continue
        if package.name:
            found[package.name] = path.rpartition("/")[0]
    return found


def _folders(paths: Sequence[str]) -> set[str]:
    scripts = [PurePosixPath(path) for path in paths if _suffix(path) in SCRIPTS]
    return {"" if str(above) == "." else str(above) for path in scripts for above in path.parents}


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()

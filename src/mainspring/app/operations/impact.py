"""What a change reaches in the repository of a folder: read from git and from the files, run nowhere."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.context.mentions import is_source
from mainspring.disk.files import make_folder, write_private
from mainspring.disk.untrusted import read_untrusted, read_untrusted_text
from mainspring.errors import UsageError
from mainspring.settings import Config
from mainspring.workspace.git import Git
from mainspring.workspace.impact import (
    FileFacts,
    Impact,
    all_changed,
    facts_of,
    impact_of,
    with_callers,
)
from mainspring.workspace.instructions import repository_root

if TYPE_CHECKING:
    from mainspring.app.operations.impact_elsewhere import ReachElsewhere

_MAX_BYTES = 2 << 20
_MAX_FILES = 50_000
_MAX_CACHE = 512 << 20
_SHOWN = 40


class _Known(msgspec.Struct, frozen=True, array_like=True):
    """What was read of a file that had this status."""

    size: int
    mtime_ns: int
    ctime_ns: int
    imports: tuple[str, ...]
    facts: msgspec.Raw


class _Files(Mapping[str, FileFacts]):
    """The facts of files, decoded when they are asked for."""

    def __init__(self, known: Mapping[str, _Known]) -> None:
        self._known = known

    def __getitem__(self, path: str) -> FileFacts:
        return msgspec.msgpack.decode(self._known[path].facts, type=FileFacts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class _Joined(Mapping[str, FileFacts]):
    """Few facts and many."""

    def __init__(self, first: Mapping[str, FileFacts], second: Mapping[str, FileFacts]) -> None:
        self._first, self._second = first, second

    def __getitem__(self, path: str) -> FileFacts:
        return self._first[path] if path in self._first else self._second[path]

    def __iter__(self) -> Iterator[str]:
        yield from (*self._first, *self._second)

    def __len__(self) -> int:
        return len(self._first) + len(self._second)


class _Asked(msgspec.Struct, kw_only=True):
    """What changed, and what is known of the Python files: of none where none of them changed."""

    root: Path
    base: str
    changed: list[str]
    known: dict[str, _Known]
    before: dict[str, FileFacts | None]


async def look_at_impact(config: Config, folder: Path, paths: Sequence[str] = (), since: str = "") -> Impact:
    """What changed since a commit (`HEAD` by default) reaches; with `paths`, what those files reach."""
    asked = await asyncio.to_thread(_look_at_python, config, folder, paths, since)
    python = [path for path in asked.changed if path.endswith(".py")]
    other = [path for path in asked.changed if path not in python and is_source(path)]
    files, before = _Files(asked.known), asked.before
    not_read = [
        f"{path}: it cannot be read as Python" for path in python if path in files and not files[path].is_read
    ]
    imports = {path: each.imports for path, each in asked.known.items()}
    if not other:
        return impact_of(imports, files, before, not_read)
    elsewhere = import_module("mainspring.app.operations.impact_elsewhere")
    reach: ReachElsewhere = await elsewhere.reach_elsewhere(
        config, asked.root, asked.base, other, is_named=bool(paths)
    )
    found = impact_of(
        imports | reach.imports,
        _Joined(reach.files, files),
        asked.before | reach.before,
        [*not_read, *reach.not_read],
    )
    return with_callers(found, reach.callers)


def _look_at_python(config: Config, folder: Path, paths: Sequence[str], since: str) -> _Asked:
    root = repository_root(folder)
    if not (root / ".git").exists():
        raise UsageError(f"{folder} is in no git repository.", remedy="Run it inside of one.")
    git = Git(root, config.environment)
    if since.startswith("-"):
        raise UsageError(f"{since} is no commit.", remedy="Give the name of a commit or branch.")
    base = since or "HEAD"
    if since and not git.text("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}", check=False):
        raise UsageError(f"{since!r} is no commit.", remedy="Give the name of a commit or branch.")
    changed = _named(git, base, folder, paths) if paths else _changed(git, base)
    python = [path for path in changed if path.endswith(".py")]
    listed = _names(git, "ls-files", "-z", "-co", "--exclude-standard") if python else []
    known = _read_files(config, root, listed) if python else {}
    files = _Files(known)
    before = _as_of(git, base, python)
    if paths:  # also what did not change is asked about
        untouched = [path for path in python if before[path] == files.get(path)]
        before |= {path: all_changed(files[path]) for path in untouched if path in files}
    return _Asked(root=root, base=base, changed=changed, known=known, before=before)


def impact_lines(found: Impact) -> list[str]:
    """For people and models alike."""
    if not found.changed and not found.not_read:
        return ["Nothing has changed."]
    api = [
        f"{each.change} {each.path}:{each.line} {each.name} [{each.semver}] {each.why}".rstrip()
        for each in found.api
    ]
    callers = [
        f"{each.path}:{each.line} uses {each.name}{' (by its name alone)' if each.is_by_name else ''}"
        for each in found.callers
    ]
    return [
        *_section("changed", found.changed),
        *_section("public API", api),
        *_section("callers", callers),
        *_section("importers", found.importers),
        *_section("tests", found.tests),
        *_section("not looked at", found.not_read),
        f"{found.reached} files are reached by imports; the version needs at least: {found.semver}",
    ]


def _section(title: str, lines: tuple[str, ...] | list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return [f"{title}:", *(f"  {line}" for line in lines[:_SHOWN]), *more]


def _names(git: Git, *arguments: str) -> list[str]:
    found = git.run(*arguments, check=False).split(b"\0")
    return [name.decode("utf-8", "replace") for name in found if name]


def _changed(git: Git, base: str) -> list[str]:
    tracked = _names(git, "diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--name-only", "-z", base)
    return sorted({*tracked, *_names(git, "ls-files", "-z", "-o", "--exclude-standard")})


def _named(git: Git, base: str, folder: Path, paths: Sequence[str]) -> list[str]:
    """The files of these names, now or in the commit; those of a folder are all that lie below it."""
    root, found = git.folder, dict[str, None]()
    for path in paths:
        whole = Path(os.path.normpath(folder / path))  # not resolved: a link is a file of its own
        if not whole.is_relative_to(root):
            raise UsageError(f"{path} is not in {root}.", remedy="Give files of this repository.")
        name = whole.relative_to(root).as_posix()
        if whole.is_dir() and not whole.is_symlink():
            found |= dict.fromkeys(_names(git, "ls-files", "-z", "-co", "--exclude-standard", "--", name))
        elif os.path.lexists(whole) or next(git.objects([f"{base}:{name}"]), None) is not None:
            found[name] = None
        else:
            raise UsageError(f"{path} is no file, now or in {base}.", remedy="Give files of this repository.")
    return [*found]


def _as_of(git: Git, base: str, paths: Sequence[str]) -> dict[str, FileFacts | None]:
    """What files were in a commit; None where they were not there."""
    asked = [path for path in paths if "\n" not in path]
    found: dict[str, FileFacts | None] = dict.fromkeys(paths)
    for path, data in zip(asked, git.objects([f"{base}:{path}" for path in asked]), strict=True):
        found[path] = facts_of(path, data.decode("utf-8", "replace")) if data is not None else None
    return found


def _read_files(config: Config, root: Path, names: Sequence[str]) -> dict[str, _Known]:
    """The Python files of a repository; what did not change since the last time is not read again."""
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    file = config.home / "impact" / f"{name}.msgpack"
    known = _load(file)
    now: dict[str, _Known] = {}
    for path in [name for name in names if name.endswith(".py")][:_MAX_FILES]:
        try:
            status = os.lstat(f"{root}/{path}")
            old = known.get(path)
            key = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if old and (old.size, old.mtime_ns, old.ctime_ns) == key:
                now[path] = old
            else:
                text = read_untrusted_text(root / path, max_bytes=_MAX_BYTES, root=root)
                facts = facts_of(path, text)
                now[path] = _Known(*key, facts.imports, msgspec.Raw(msgspec.msgpack.encode(facts)))
        except OSError:
            continue  # gone, a link out of the repository, or no text
    if len(now) != len(known) or any(known.get(path) is not each for path, each in now.items()):
        make_folder(file.parent)
        write_private(file, msgspec.msgpack.encode(now), is_synced=False)
    return now


def _load(file: Path) -> dict[str, _Known]:
    try:
        return msgspec.msgpack.decode(read_untrusted(file, max_bytes=_MAX_CACHE), type=dict[str, _Known])
    except (OSError, msgspec.MsgspecError):
        return {}

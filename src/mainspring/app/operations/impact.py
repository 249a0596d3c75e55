"""What a change reaches in the repository of a folder: read from git and from the files, run nowhere."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from mainspring.context.mentions import is_source
from mainspring.disk.files import make_folder, write_private
from mainspring.disk.untrusted import read_untrusted, read_untrusted_text
from mainspring.errors import UsageError
from mainspring.settings import Config
from mainspring.workspace.git import Git
from mainspring.workspace.impact import FileFacts, Impact, facts_of, impact_of
from mainspring.workspace.instructions import repository_root

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


def look_at_impact(config: Config, folder: Path, paths: Sequence[str] = (), since: str = "") -> Impact:
    """What changed since a commit (`HEAD` by default) reaches; with `paths`, what those files reach."""
    root = repository_root(folder)
    if not (root / ".git").exists():
        raise UsageError(f"{folder} is in no git repository.", remedy="Run it inside of one.")
    git = Git(root, config.environment)
    if since.startswith("-"):
        raise UsageError(f"{since} is no commit.", remedy="Give the name of a commit or branch.")
    base = since or "HEAD"
    if since:
        git.run("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    known = _read_files(config, root, _names(git, "ls-files", "-z", "-co", "--exclude-standard"))
    files = _Files(known)
    changed = _named(folder, root, paths) or _changed(git, base)
    python = [path for path in changed if path.endswith(".py")]
    before = _as_of(git, base, python)
    if paths:  # also what did not change is asked about
        untouched = [path for path in python if before[path] == files.get(path)]
        before |= {path: _emptied(files[path]) for path in untouched if path in files}
    broken = [path for path in python if path in files and not files[path].is_read]
    other = [path for path in changed if path not in python and is_source(path)]
    not_read = [f"{path}: only Python is read" for path in other]
    not_read += [f"{path}: it cannot be read as Python" for path in broken]
    return impact_of({path: each.imports for path, each in known.items()}, files, before, not_read)


def impact_lines(found: Impact) -> list[str]:
    """For people and models alike."""
    if not found.changed and not found.not_read:
        return ["Nothing has changed."]
    api = [
        f"{each.change} {each.path}:{each.line} {each.name} [{each.semver}] {each.why}".rstrip()
        for each in found.api
    ]
    callers = [f"{each.path}:{each.line} uses {each.name}" for each in found.callers]
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


def _emptied(facts: FileFacts) -> FileFacts:
    """The same definitions, all of them taken as changed inside."""
    definitions = {name: msgspec.structs.replace(each, text="") for name, each in facts.definitions.items()}
    return msgspec.structs.replace(facts, definitions=definitions)


def _names(git: Git, *arguments: str) -> list[str]:
    found = git.run(*arguments, check=False).split(b"\0")
    return [name.decode("utf-8", "replace") for name in found if name]


def _changed(git: Git, base: str) -> list[str]:
    tracked = _names(git, "diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--name-only", "-z", base)
    return sorted({*tracked, *_names(git, "ls-files", "-z", "-o", "--exclude-standard")})


def _named(folder: Path, root: Path, paths: Sequence[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        whole = Path(os.path.normpath(folder / path))  # not resolved: a link is a file of its own
        if not whole.is_relative_to(root):
            raise UsageError(f"{path} is not in {root}.", remedy="Give files of this repository.")
        found.append(whole.relative_to(root).as_posix())
    return found


def _as_of(git: Git, base: str, paths: Sequence[str]) -> dict[str, FileFacts | None]:
    """What files were in a commit; None where they were not there."""
    asked = [path for path in paths if "\n" not in path]
    found: dict[str, FileFacts | None] = dict.fromkeys(paths)
    for path, data in zip(asked, git.objects([f"{base}:{path}" for path in asked]), strict=True):
        found[path] = facts_of(path, data.decode("utf-8", "replace")) if data is not None else None
    return found


def _read_files(config: Config, root: Path, names: Sequence[str]) -> dict[str, _Known]:
    """The Python files of a repository; what did not change since the last time is not read again."""
    name = hashlib.sha256(str(root).encode()).hexdigest()[:16]
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

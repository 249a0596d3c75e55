"""Scripts of the workspace that a command names: what a person is shown, and what a yes is bound to.

`sh t.sh`, `python3 x.py`, `./run.sh` and `make test` mean what the file says at that moment. What the file
itself starts is not followed. A file that is missing, cannot be read whole, or lies in a folder that is known
only when the command runs gets a hash that never comes again: it is asked every time.
"""

from __future__ import annotations

import difflib
import hashlib
import posixpath
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from mainspring.approvals import absolute, is_inside
from mainspring.approvals.places import PathLocation
from mainspring.approvals.task_files import TASK_FILES, excerpt, included, task_files
from mainspring.approvals.wrappers import SHELLS, Argv, Word
from mainspring.disk.untrusted import read_untrusted
from mainspring.events import AskedScript

_MAX_BYTES = 4 * 1024 * 1024
_MAX_CHARS = 16_000
_MAX_INCLUDED = 50
_INTERPRETERS = re.compile(
    r"(?:python|pypy)[\d.]*|perl|ruby|node|bun|deno|php|lua|Rscript|tclsh|osascript|guile|\.|source|ts-node|tsx"
)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_WITH_VALUE = re.compile(r"[-+](?:[a-zA-Z]*[oOWX]|I|-rcfile|-init-file)")
_NO_FILE = re.compile(r"-[a-zA-Z]*[cmsep]|--eval|--print")
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 - other folders, to commands in a sandbox


class NamedScript(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a command runs: the first of `paths` that there is, None for one that is not known
    beforehand. `targets` are what is to be run of it. Without `is_needed` it may also not be there."""

    paths: tuple[str | None, ...]
    targets: tuple[str, ...] = ()
    is_needed: bool = True


def is_interpreter(program: Word) -> bool:
    """Whether it runs a file that is given to it."""
    return program.program in SHELLS or bool(_INTERPRETERS.fullmatch(program.program))


def scripts_of(argv: Argv, place: PathLocation) -> tuple[NamedScript, ...]:
    """The files of the workspace that a command runs, one for each folder that it may run in."""
    if not argv or not argv[0].is_plain:
        return ()
    found = tuple(_of_runner(argv, place) if argv[0].program in TASK_FILES else _of_program(argv, place))
    return tuple(each for each in found if any(_is_writable(path, place) for path in each.paths))


def _of_runner(argv: Argv, place: PathLocation) -> Iterator[NamedScript]:
    files = task_files(argv)
    if files is None:
        return
    for cwd in place.cwds:
        folder = cwd if files.folder is None or cwd is None else absolute(files.folder, cwd=cwd)
        if folder is None or not files.is_known:
            yield NamedScript(paths=(None,))
            continue
        folders = [folder]
        while (
            files.is_sought_above
            and folders[-1] != place.workspace
            and is_inside(folders[-1], place.workspace)
        ):
            folders.append(posixpath.dirname(folders[-1]))
        paths = tuple(absolute(name, cwd=each) for each in folders for name in files.names)
        yield NamedScript(paths=paths, targets=files.targets)


def _of_program(argv: Argv, place: PathLocation) -> Iterator[NamedScript]:
    if (module := _module(argv)) is not None:
        for cwd in (each for each in place.cwds if each is not None):
            paths = (f"{module}/__main__.py", f"{module}.py")
            yield NamedScript(paths=tuple(absolute(path, cwd=cwd) for path in paths), is_needed=False)
        return
    word = argv[0] if "/" in argv[0].text else None
    if is_interpreter(argv[0]):
        word = _first_file(argv)
    if word is not None and word.is_plain:
        for path in place.paths(word):
            yield NamedScript(paths=(path,))


def read_scripts(named: Iterable[NamedScript], workspace: str) -> AskedScript | None:
    """What a command runs as it is now, all as one; None when there is no such file and need be none."""
    named = tuple(named)
    by_path = {script.path: script for each in named if (script := _first(each, workspace)) is not None}
    found = list(by_path.values())
    if any(None in each.paths for each in named):
        found = [_unreadable("", "where it runs is known only then"), *found]
    if not found:
        needed = next((each.paths[0] for each in named if each.is_needed), None)
        return _unreadable(needed, "there is no such file yet") if needed else None
    if len(found) == 1:
        return found[0]
    sha256 = hashlib.sha256("\n".join(each.sha256 for each in found).encode()).hexdigest()
    text = "\n".join(f"{each.path}:\n{each.text}" for each in found)
    return AskedScript(path=found[0].path or found[1].path, sha256=sha256, text=_bounded(text))


def _first(named: NamedScript, workspace: str) -> AskedScript | None:
    for path in named.paths:
        if path and (found := _read(path, workspace, named.targets)) is not None:
            return found
    return None


def _read(path: str, workspace: str, targets: tuple[str, ...]) -> AskedScript | None:
    if any(is_inside(path, folder) for folder in _TEMPORARY) and not is_inside(path, workspace):
        return _unreadable(path, "what lies there is another file in a sandbox")
    try:
        data = read_untrusted(Path(path), max_bytes=_MAX_BYTES, root=Path(workspace))
        text = data.decode("utf-8", errors="replace")
        data += _included(path, text, workspace)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        return _unreadable(path, getattr(error, "strerror", "") or str(error))
    shown = excerpt(path, text, targets)
    whole = data.decode("utf-8", errors="replace")
    text = f"{shown}\n\nall of {posixpath.basename(path)}:\n{whole}" if shown else whole
    return AskedScript(path=path, sha256=hashlib.sha256(data).hexdigest(), text=_bounded(text))


def since(script: AskedScript, before: Iterable[str]) -> str:
    """What changed since a person said yes to it for the last time; empty when nobody did."""
    last = next((text for text in before if text), "")
    name = posixpath.basename(script.path)
    lines = difflib.unified_diff(
        last.splitlines(), script.text.splitlines(), f"{name} (allowed)", f"{name} (now)", lineterm="", n=2
    )
    return _bounded("\n".join(lines)) if last else ""


def _first_file(argv: Argv) -> Word | None:
    at = 1
    while at < len(argv) and (not argv[at].is_plain or argv[at].text[:1] in "-+" or argv[at].text == "run"):
        if not argv[at].is_plain or (argv[0].program not in SHELLS and _NO_FILE.match(argv[at].text)):
            return None
        if argv[0].program in SHELLS and re.match(r"-[a-zA-Z]*[cs]", argv[at].text):
            return None
        at += 2 if _WITH_VALUE.fullmatch(argv[at].text) else 1
    return argv[at] if at < len(argv) else None


def _included(path: str, text: str, workspace: str) -> bytes:
    """What a file of tasks includes, and they in turn; one that is missing is named."""
    found, left = b"", list(included(path, text))
    seen: set[str] = set()
    while left:
        if (name := left.pop(0)) in seen:
            continue
        seen.add(name)
        if len(seen) > _MAX_INCLUDED:
            raise ValueError("it includes too many files")
        try:
            data = read_untrusted(Path(path).parent / name, max_bytes=_MAX_BYTES, root=Path(workspace))
        except FileNotFoundError:
            data = b"(there is no such file yet)"
        found += f"\n{name}:\n".encode() + data
        left += included(path, data.decode("utf-8", errors="replace"))
    return found


def _module(argv: Argv) -> str | None:
    """The module that `python3 -m` runs, as the path of it."""
    if not _PYTHON.fullmatch(argv[0].program):
        return None
    for word, following in zip(argv[1:], (*argv[2:], Word("")), strict=False):
        if not word.is_plain or not word.text.startswith("-"):
            return None
        if found := re.fullmatch(r"-[a-zA-Z]*?m(.*)", word.text):
            name = found[1] or (following.text if following.is_plain else "")
            return name.replace(".", "/") if re.fullmatch(r"\w+(\.\w+)*", name) else None
    return None


def _is_writable(path: str | None, place: PathLocation) -> bool:
    """Whether a command could have written the file: it lies in the workspace, or for temporary files."""
    return path is None or any(is_inside(path, folder) for folder in (place.workspace, *_TEMPORARY))


def _unreadable(path: str, why: str) -> AskedScript:
    return AskedScript(path=path, sha256=secrets.token_hex(32), text=f"({why}, so it is asked every time)")


def _bounded(text: str) -> str:
    """Cut at the end of a line, so that no half of a secret is left that nobody would know."""
    if len(text) <= _MAX_CHARS:
        return text
    shown = text[:_MAX_CHARS].rpartition("\n")[0]
    return f"{shown}\n… {len(text) - len(shown):,} more characters"

"""Keeps the programs of PATH reachable in a sandbox that puts empty folders in the place of the machine's.

A private /tmp would hide a virtual environment that lies there. For each entry of PATH, and for the
interpreter that runs us, `program_folders` names what is shown of it, read-only: its own prefix and nothing
beside it; or it says why nothing is. Links are not followed out of folders that commands can write, because
they could lead anywhere.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.disk.untrusted import read_start
from mainspring.sandbox.environment import DEFAULT_PATH
from mainspring.sandbox.policy import PRIVATE_FOLDERS, Confinement, Network

REPLACED = (Path("/tmp"), Path("/var/tmp"), Path("/run"), Path("/dev"))  # noqa: S108 - these become private
_PROJECT_MARKS = (".git", "pyproject.toml", "package.json", "pyvenv.cfg")
_MAX_CFG_BYTES = 64 * 1024
OWN_CODE = Path(__file__).parent / "custody"
"""Runs inside a sandbox when the hosts that a command may reach are on a list."""


class ProgramFolder(msgspec.Struct, frozen=True):
    """What is shown of a folder with programs. `links` are places that lead elsewhere, with where they lead.
    Without anything shown, `why_not` says why."""

    entry: str
    shown: tuple[Path, ...] = ()
    links: tuple[tuple[Path, Path], ...] = ()
    why_not: str = ""


def program_folders(environment: Mapping[str, str], policy: Confinement) -> tuple[ProgramFolder, ...]:
    """Those entries of PATH, and what they need, that a sandbox would hide or that are never shown; entries
    that stay where they are, or lie in the workspace, are not among them."""
    home = environment.get("HOME", "")
    own = (str(Path(sys.executable).parent), str(Path(sys.base_prefix, "bin")), str(OWN_CODE))
    waiting = [*environment.get("PATH", DEFAULT_PATH).split(os.pathsep), *own]
    found: dict[str, ProgramFolder | None] = {}
    while waiting:
        entry = waiting.pop(0)
        if entry not in found:
            found[entry] = folder = _decided(entry, Path(os.path.realpath(home)) if home else None, policy)
            waiting += _needed_by(folder) if folder else ()
    return tuple(folder for folder in found.values() if folder)


def _decided(entry: str, home: Path | None, policy: Confinement) -> ProgramFolder | None:
    if not entry.startswith("/"):
        return ProgramFolder(entry, why_not="it is relative, so it is another folder wherever a command runs")
    real = Path(os.path.realpath(entry))
    if real == Path("/"):
        return ProgramFolder(entry, why_not="it is the root of all files")
    literal = real if ".." in Path(entry).parts else Path(entry)
    places = [place for place in dict.fromkeys((literal, real)) if _is_replaced(place)]
    if not places or not real.is_dir() or _is_in_workspace(literal, policy):
        return None
    if why_not := _why_not(real, home, policy):
        return ProgramFolder(entry, why_not=why_not)
    shown: list[Path] = []
    links: list[tuple[Path, Path]] = []
    for prefix in (_prefix_of(place, home, policy) for place in places):
        target = Path(os.path.realpath(prefix))
        if target != prefix:
            links.append((prefix, target))
        if _is_replaced(target) and not _is_in_workspace(target, policy):
            shown.append(target)
    return ProgramFolder(entry, tuple(dict.fromkeys(shown)), tuple(dict.fromkeys(links)))


def _is_replaced(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in REPLACED)


def _is_in_workspace(path: Path, policy: Confinement) -> bool:
    return any(path.is_relative_to(folder) for folder in (policy.workspace, *policy.writable))


def _prefix_of(folder: Path, home: Path | None, policy: Confinement) -> Path:
    """The folder, or the one around it when that is a virtual environment or has libraries beside `bin`."""
    around = folder.parent
    is_prefix = (around / "pyvenv.cfg").is_file() or (folder.name == "bin" and (around / "lib").is_dir())
    return around if is_prefix and not _why_not(Path(os.path.realpath(around)), home, policy) else folder


def _why_not(folder: Path, home: Path | None, policy: Confinement) -> str:
    """Why a resolved folder is not shown, or nothing."""
    if home == folder:
        return "it is the home folder"
    if home and home.is_relative_to(folder):
        return "the home folder lies in it"
    if any(replaced.is_relative_to(folder) for replaced in REPLACED):
        return "it holds the files of every program"
    if folder.stat().st_mode & stat.S_IWOTH:
        return "anybody can write to it"
    if any(folder.is_relative_to(data) for data in policy.protected_paths):
        return "it lies in mainspring's own data"
    return policy.refuses_read(folder)


def _needed_by(folder: ProgramFolder) -> Iterator[str]:
    """Where the programs lie that a shown folder only links to, and the interpreter of an environment."""
    for prefix in folder.shown:
        for line in _lines(prefix / "pyvenv.cfg"):
            name, _, value = line.partition("=")
            if name.strip() == "home":
                yield value.strip()
        for programs in (prefix, prefix / "bin"):
            with suppress(OSError):
                for entry in os.scandir(programs):
                    if entry.is_symlink() and _is_replaced(target := Path(os.path.realpath(entry.path))):
                        yield str(target.parent)


def _lines(file: Path) -> list[str]:
    try:
        return read_start(file, max_bytes=_MAX_CFG_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def is_private(path: Path) -> bool:
    """Whether a sandbox has a folder of its own in the place of the one that a path lies in."""
    return any(path.is_relative_to(folder) for folder in PRIVATE_FOLDERS)


def confined_to_reading(confinement: Confinement, *folders: Path, program: Path | None = None) -> Confinement:
    """Nothing to write and no network; `folders`, and what belongs to a program, can be read also where a
    sandbox has a folder of its own."""
    shown = [path for path in folders if is_private(path)]
    shown += projects_of([program], confinement) if program else []
    return msgspec.structs.replace(
        confinement, mode="read-only", network=Network(), readable=(*confinement.readable, *shown)
    )


def projects_of(programs: Iterable[Path], policy: Confinement) -> tuple[Path, ...]:
    """Where programs lie with what belongs to them, if that is where a sandbox has a folder of its own: the
    outermost folder that is a project, an environment or a folder of packages, else the program's own, else
    the file alone. A folder around the workspace, a home or other secrets is not among them, nor what lies in
    the workspace or is linked from there."""
    outside = (path for path in programs if not _is_in_workspace(path, policy))
    named = {each for path in outside for each in (path, path.resolve()) if is_private(each)}
    shown = (path for path in named if path.is_file() and not _is_in_workspace(path, policy))
    return tuple(sorted({_project_of(path, policy) for path in shown}))


def _project_of(program: Path, policy: Confinement) -> Path:
    kept = (policy.workspace, *policy.hidden_paths, *policy.protected_paths)
    around = [
        folder
        for folder in program.parents
        if is_private(folder.parent) and not any(path.is_relative_to(folder) for path in kept)
    ]
    projects = [folder for folder in around if _is_project(folder)]
    return next(iter(projects[::-1] or around), program)


def _is_project(folder: Path) -> bool:
    return folder.name == "node_modules" or any((folder / mark).exists() for mark in _PROJECT_MARKS)

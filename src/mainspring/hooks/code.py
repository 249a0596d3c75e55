"""Which programs of the workspace a hook runs: agents can write them, so their hashes belong to what a person
approves, and are looked at before each run.

The command is taken apart as the policy does it. What a program loads itself is not followed. A file that is
not there yet is watched too; one that is known only when the command runs is told to whoever approves it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

from mainspring.approvals import is_inside
from mainspring.approvals.places import PathLocation, cwds_of
from mainspring.approvals.scripts import is_interpreter, scripts_of
from mainspring.approvals.shell import ShellScript, SimpleCommand, read
from mainspring.approvals.task_files import TASK_FILES
from mainspring.approvals.wrappers import Word
from mainspring.disk.untrusted import read_untrusted

ROOT_VARIABLES = ("CLAUDE_PROJECT_DIR", "MAINSPRING_PROJECT_DIR")
PLUGIN_VARIABLES = ("CLAUDE_PLUGIN_ROOT", "MAINSPRING_PLUGIN_ROOT")
NOT_THERE = "not there"
_MAX_CODE = 4 << 20
_CODE = ".bash .cjs .js .lua .mjs .php .pl .ps1 .py .rb .sh .ts .zsh".split()  # noqa: SIM905
_HERE = (*ROOT_VARIABLES, "PWD")
_TOP = r"\$\(\s*(?:git rev-parse --show-toplevel|pwd)\s*\)|`\s*(?:git rev-parse --show-toplevel|pwd)\s*`"
_CHOOSES_CODE = re.compile(
    r"PATH|PYTHON(PATH|HOME|STARTUP)|NODE_(PATH|OPTIONS)|PERL5(LIB|OPT)|RUBY(LIB|OPT)|BASH_ENV|ENV|LD_\w+"
)


class HookCode(msgspec.Struct, frozen=True):
    """The files by their paths in the workspace, with hashes; `unknown` says why there may be more."""

    files: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] = ()


def code_of(command: str, workspace: Path, plugin: Path | None, *, with_tasks: bool) -> HookCode:
    """`with_tasks`: files of tasks (of `make`, `npm` and so on) count too."""
    script = read(_with_roots(command, workspace, plugin))
    home, root = str(Path("~").expanduser()), str(workspace)
    cwds = cwds_of((each.argv for each in script.commands), cwd=root, home=home)
    place = PathLocation(workspace=root, cwds=cwds, home=home)
    paths: set[str] = set()
    for each in script.commands:
        is_runner = bool(each.argv) and each.argv[0].program in TASK_FILES
        paths.update(() if is_runner and not with_tasks else _named(each, place))
        paths.update(_mentioned(each.argv, place))
    for each in script.redirects:
        paths.update(() if each.is_write else _mentioned((each.target,), place))
    found = {os.path.relpath(path, workspace): sha256_of(Path(path), workspace) for path in paths}
    return HookCode(tuple(sorted(found.items())), tuple(dict.fromkeys(_unknown(script, place))))


def sha256_of(path: Path, workspace: Path) -> str:
    try:
        return hashlib.sha256(read_untrusted(path, max_bytes=_MAX_CODE, root=workspace)).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return NOT_THERE
    except OSError as error:
        return error.strerror or "cannot be read"


def _with_roots(command: str, workspace: Path, plugin: Path | None) -> str:
    """With the folders that are known beforehand in the place of what stands for them."""
    command = re.sub(_TOP, ".", command)
    given = dict.fromkeys(_HERE, ".")
    if plugin is not None:
        is_here = is_inside(str(plugin), str(workspace))
        root = os.path.relpath(plugin, workspace) if is_here else "/plugin"
        given |= dict.fromkeys(PLUGIN_VARIABLES, root)
    for name, folder in given.items():
        command = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", lambda _, folder=folder: folder, command)
    return command


def _named(simple: SimpleCommand, place: PathLocation) -> Iterator[str]:
    """What the command runs by its form, whether it is there or not."""
    for each in scripts_of(simple.argv, place):
        for path in each.paths:
            if path is not None and is_inside(path, place.workspace):
                yield path
                if not each.is_needed:  # a module: its packages are run first
                    yield from _packages(path, place.workspace)


def _packages(path: str, workspace: str) -> Iterator[str]:
    for folder in PurePosixPath(path).parents:
        if str(folder) == workspace or not is_inside(str(folder), workspace):
            return
        yield str(folder / "__init__.py")


def _mentioned(argv: tuple[Word, ...], place: PathLocation) -> Iterator[str]:
    """The words that are programs by their names or modes, and the first file behind an interpreter."""
    is_run = bool(argv) and is_interpreter(argv[0])
    for word in argv:
        for path in place.paths(word) if word.is_plain and word.text else ():
            if path is None or not is_inside(path, place.workspace) or not _is_file(path):
                continue
            if is_run or Path(path).suffix in _CODE or os.access(path, os.X_OK):
                yield path
            is_run = False


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def _unknown(script: ShellScript, place: PathLocation) -> Iterator[str]:
    yield from (*script.opaque, *script.unreadable)
    for each in (each for each in script.commands if not each.is_guess):
        if any(path is None for named in scripts_of(each.argv, place) for path in named.paths):
            yield f"the folder that {each.text!r} runs in is known only then"
        first = next((word for word in each.argv[1:] if word.text[:1] not in "-+"), None)
        if each.argv and is_interpreter(each.argv[0]) and first is not None and not first.is_plain:
            yield f"what {each.text!r} runs is known only when it runs"
        yield from (
            f"{name} decides what it runs" for name, _ in each.assignments if _CHOOSES_CODE.fullmatch(name)
        )

"""Programs that run what a file of the workspace says (`make test`, `npm run build`): which file it is, and
which part of it is meant. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

import msgspec

from mainspring.approvals.wrappers import Argv

_MAKE = ("GNUmakefile", "makefile", "Makefile")
_PACKAGE = ("package.json",)

TASK_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), _MAKE),
    **dict.fromkeys(("npm", "pnpm", "yarn"), _PACKAGE),
    "just": ("justfile", ".justfile", "Justfile"),
    "task": ("Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml"),
    "rake": ("Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini", "setup.cfg", "pyproject.toml", "tox.toml"),
    **dict.fromkeys(("invoke", "inv"), ("tasks.py",)),
    "poe": ("pyproject.toml",),
    "composer": ("composer.json",),
}
"""The files by program; the first that there is counts."""

_FOLDER = re.compile(
    r"(-C|-d|--directory|--working-directory|--prefix|--cwd|--dir)(?:=(.*)|$)|-C(.+)", re.DOTALL
)
_FILE = re.compile(
    r"(-f|--file|--makefile|--justfile|--taskfile|--rakefile|-c|--conf)(?:=(.*)|$)|-f(.+)", re.DOTALL
)
_ONLY_READS = frozenset(
    "audit help info list ls outdated ping prefix root search v version view whoami why".split()  # noqa: SIM905
)
_INCLUDE = re.compile(r"^[ ]*(?:-|s)?include[ \t]+(.+)$|^import\??[ \t]+['\"](.+)['\"]", re.MULTILINE)


class TaskFiles(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` is the folder that the command names itself, if any; not `is_known`: which file it is is known
    only when it runs."""

    names: tuple[str, ...]
    folder: str | None = None
    targets: tuple[str, ...] = ()
    is_known: bool = True
    is_sought_above: bool = False


def task_files(argv: Argv) -> TaskFiles | None:
    """The files that a command of such a program may read; None when it runs nothing of them."""
    program = argv[0].program
    names, folder = TASK_FILES[program], None
    words: list[str] = []
    at = 1
    while at < len(argv):
        word, at = argv[at], at + 1
        if not word.is_plain:
            return TaskFiles(names=names, is_known=False)
        for pattern in (_FOLDER, _FILE):
            if not (found := pattern.fullmatch(word.text)):
                continue
            value = found[2] or found[3]
            if value is None:
                if at >= len(argv) or not argv[at].is_plain:
                    return TaskFiles(names=names, is_known=False)
                value, at = argv[at].text, at + 1
            if pattern is _FILE:
                names = (value,)
            else:
                folder = posixpath.join(folder or "", value)
            break
        else:
            words.append(word.text)
    named = [word for word in words if not word.startswith("-") and "=" not in word]
    if names == _PACKAGE:
        if not named or named[0] in _ONLY_READS:
            return (
                None
                if program != "yarn" or named
                else TaskFiles(names=names, folder=folder, is_sought_above=True)
            )
        named = named[1:2] if named[0] in ("run", "run-script") else named[:1]
    is_above = program not in ("make", "gmake") and names == TASK_FILES[program]
    return TaskFiles(names=names, folder=folder, targets=tuple(named), is_sought_above=is_above)


def excerpt(path: str, text: str, targets: tuple[str, ...]) -> str:
    """What the targets run, where it is simply found."""
    name = posixpath.basename(path)
    if name == "package.json":
        return _of_package(text, targets)
    if name in _MAKE or name.endswith((".mk", "justfile", "Justfile")):
        return _of_recipes(text, targets)
    return ""


def included(path: str, text: str) -> Iterator[str]:
    """The further files that a file of tasks reads; a `ValueError` when they are known only then."""
    name = posixpath.basename(path)
    if name not in _MAKE and not name.endswith((".mk", "justfile", "Justfile")):
        return
    for found in _INCLUDE.finditer(text):
        for each in (found[1] or found[2]).split("#")[0].split():
            if re.search(r"[$*?~%]", each):
                raise ValueError(f"which files it includes ({each}) is known only when it runs")
            yield each


def _of_package(text: str, targets: tuple[str, ...]) -> str:
    try:
        package = msgspec.json.decode(text.encode(), type=_Package)
    except msgspec.MsgspecError:
        return ""
    names = [name for target in targets for name in (f"pre{target}", target, f"post{target}")]
    return "\n".join(f"{name}: {package.scripts[name]}" for name in names if name in package.scripts)


class _Package(msgspec.Struct):
    scripts: dict[str, str] = {}


def _of_recipes(text: str, targets: tuple[str, ...]) -> str:
    recipe = r"^{}[^\n=]*:(?!=)[^\n]*(?:\n(?:[ \t]+[^\n]*|[ \t]*(?=\n[ \t])))*"
    if not targets:
        found = re.search(recipe.format(r"(?![.#])[\w./-]+"), text, re.MULTILINE)
        return found[0].rstrip() if found else ""
    recipes = (
        re.search(recipe.format(rf"@?{re.escape(each)}(?![\w./-])"), text, re.MULTILINE) for each in targets
    )
    return "\n".join(found[0].rstrip() for found in recipes if found)

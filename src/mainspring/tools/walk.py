"""The files of a folder as a person would list them: ignore files respected, secrets and `.git` left out,
bounded. ripgrep lists them where the sandbox has it; the walk here gives the same without it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

import msgspec

from mainspring.disk.scan import walk
from mainspring.errors import PathRefused, SandboxError
from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.files import Files
from mainspring.sandbox.hidden import may_be_key
from mainspring.sandbox.policy import is_hidden_name
from mainspring.tools import CallContext, ToolFailed
from mainspring.tools.files import explained
from mainspring.tools.globs import IGNORE_FILES, IgnoreRule, parse_ignore, verdict
from mainspring.tools.text import decode, is_unicode

MAX_FILES = 200_000
_TIMEOUT_S = 60.0
_MAX_IGNORE_BYTES = 1024 * 1024
# The same rules as the walk below: hidden files shown, nothing from settings or from outside the tree.
_RULES = (
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--glob=!.git",
)


class Root(msgspec.Struct, frozen=True):
    """Where to look: a folder, or with a name one file of it."""

    folder: Path
    name: str = ""


class Listing(msgspec.Struct, frozen=True):
    """Paths relative to `root`, sorted; `is_cut` says that there are more, and `unnamed` how many were left
    out because their names are not text, which no journal, model or database takes."""

    root: Path
    paths: tuple[str, ...]
    is_cut: bool = False
    unnamed: int = 0


async def files_under(place: CallContext, path: str) -> Listing:
    """Every file in a folder that may be seen; a file is a list of one."""
    with explained(path):
        found = await asyncio.to_thread(readable_root, place.files, path)
    root = found.folder
    if found.name:
        return Listing(root, (found.name,))
    finished = await ripgrep(place, root, ("--files", "--null"))
    if finished is None:
        with explained(path):
            return await asyncio.to_thread(walked, place.files, root)
    names = beginning(finished).decode("utf-8", "surrogateescape").split("\0")[:-1]
    seen = list(filter(shown(place.files, root), names))
    paths = sorted(filter(is_unicode, seen), key=order)
    is_cut = len(paths) > MAX_FILES or finished.dropped_bytes > 0
    return Listing(root, tuple(paths[:MAX_FILES]), is_cut, unnamed=len(seen) - len(paths))


async def ripgrep(place: CallContext, root: Path, arguments: tuple[str, ...]) -> CommandResult | None:
    """What ripgrep said, run in the sandbox; None when it is not there, no sandbox works, it does not show it
    the folder, or it could not do it."""
    argv = ("rg", *_RULES, "--no-messages", "--color=never", "--sort=path", *arguments)
    try:
        sandbox = await place.sandbox()
        finished = await sandbox.run(Command(argv=argv, cwd=root, timeout_s=_TIMEOUT_S))
    except SandboxError:
        return None
    if finished.stopped:
        raise ToolFailed(f"The search was stopped ({finished.stopped}). Search a smaller folder.")
    return finished if finished.exit_code in (0, 1) else None


def beginning(finished: CommandResult) -> bytes:
    """The output up to where something is missing in it."""
    return finished.stdout.rpartition(b"\n[... ")[0] if finished.dropped_bytes else finished.stdout


def order(path: str) -> tuple[str, ...]:
    """Folders are compared part by part, so that a folder's files stay together."""
    return tuple(path.split("/"))


def shown(files: Files, root: Path) -> Callable[[str], bool]:
    """Whether a path under the root may be seen. The policy is asked only about what looks like a secret:
    asking it about each of a hundred thousand files would take seconds."""
    policy = files.policy
    hidden = [path.relative_to(root).as_posix() for path in policy.hidden_paths if path.is_relative_to(root)]
    is_suspect = cache(partial(is_hidden_name, policy=policy))

    def is_shown(path: str) -> bool:
        parts = path.split("/")
        if ".git" in parts:
            return False
        is_named = any(map(is_suspect, parts)) or may_be_key(parts[-1])
        if is_named or any(path == at or path.startswith(f"{at}/") for at in hidden):
            return not policy.refuses_read(root / path)
        return True

    return is_shown


def readable_root(files: Files, path: str) -> Root:
    """A file or folder that exists and may be read, by its real path."""
    real = files.resolve(path)
    if not real.is_dir():
        files.read(path, max_bytes=0)
        return Root(real.parent, real.name)
    files.entries(path)
    return Root(real)


class Level(msgspec.Struct, frozen=True):
    """The ignore files of one folder, by kind; patterns count from that folder."""

    folder: Path
    rules: dict[str, tuple[IgnoreRule, ...]]
    is_repository: bool


def walked(files: Files, root: Path, is_enough: Callable[[int], bool] | None = None) -> Listing:
    """The listing without ripgrep, cut where it takes too long, or where so many files are enough."""
    found: list[str] = []
    deadline = time.monotonic() + _TIMEOUT_S
    start = len(os.fspath(root).rstrip("/")) + 1

    def enter(item: tuple[Path, list[Level]]) -> Iterable[tuple[Path, list[Level]]]:
        folder, above = item
        levels = [*above, level_of(files, folder)]
        below: list[tuple[Path, list[Level]]] = []
        try:
            entries = files.entries(folder)
        except (OSError, PathRefused):
            return ()  # it went away, or may not be seen
        for entry in entries:
            path = folder / entry.name
            if entry.name == ".git" or entry.is_link or is_ignored(levels, path, is_dir=entry.is_dir):
                continue
            if entry.is_dir:
                below.append((path, levels))
            elif path.is_file():
                found.append(str(path)[start:])
        return below

    def is_over() -> bool:
        if is_enough and is_enough(len(found)):
            return True
        return len(found) > MAX_FILES or time.monotonic() > deadline

    walk([(root, [level_of(files, folder) for folder in reversed(root.parents)])], enter, is_over=is_over)
    named = list(filter(is_unicode, found))
    unnamed = len(found) - len(named)
    return Listing(root, tuple(sorted(named, key=order)[:MAX_FILES]), is_cut=is_over(), unnamed=unnamed)


def level_of(files: Files, folder: Path) -> Level:
    """The ignore files that lie in a folder."""
    rules = {name: parsed for name in IGNORE_FILES if (parsed := ignore_rules(files, folder / name))}
    return Level(folder, rules, is_repository=(folder / ".git").exists())


def ignore_rules(files: Files, file: Path) -> tuple[IgnoreRule, ...]:
    """The rules of an ignore file; a file that is not there has none."""
    if not file.is_file():
        return ()
    try:
        decoded = decode(files.read(file, max_bytes=_MAX_IGNORE_BYTES).data)
    except (OSError, PathRefused):
        return ()  # a file that cannot be read ignores nothing
    return parse_ignore(decoded.text) if decoded else ()


def is_ignored(levels: list[Level], path: Path, *, is_dir: bool) -> bool:
    """Whether the ignore files of the folders above a path, the outermost first, leave it out."""
    text = str(path)
    for kind in IGNORE_FILES:
        for level in reversed(levels):
            if rules := level.rules.get(kind):
                relative = text[len(str(level.folder)) :].lstrip("/")
                if (said := verdict(rules, relative, is_dir=is_dir)) is not None:
                    return said
            # Git's own rules end at the root of a repository.
            if kind == ".gitignore" and level.is_repository:
                break
    return False

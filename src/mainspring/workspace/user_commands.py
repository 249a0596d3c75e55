"""Commands that people write: Markdown files whose text is said in their place, `/NAME ARGUMENTS`.

A head may give `description`, `argument-hint`, `model` and `allowed-tools`. In the text `$ARGUMENTS` is all
that was given, `$1` to `$9` are single words, and ``!`command` `` stands for the output of a command that is
run first. A file in a folder is named `folder:file`. Files are read here and texts filled in; nothing is run.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mainspring.patterns import lazy_pattern
from mainspring.workspace.skills import Broken, frontmatter, read_whole

_MAX_BYTES = 64 * 1024
_MAX_COMMANDS = 200
_NAME = lazy_pattern(r"[a-z0-9][a-z0-9_.-]*(?::[a-z0-9][a-z0-9_.-]*)*", re.IGNORECASE)
_HEAD = lazy_pattern(r"\A\ufeff?---[ \t]*\n.*?^---[ \t]*\n?", re.DOTALL | re.MULTILINE)
_RUN = lazy_pattern(r"!`([^`\n]+)`")
_GIVEN = lazy_pattern(r"\$(ARGUMENTS|[1-9])\b")


class UserCommand(msgspec.Struct, frozen=True, kw_only=True):
    """`is_projects`: it came with the workspace, so what it runs must be approved first. `allowed_tools` is
    told and grants nothing."""

    name: str
    path: Path
    text: str
    whole: str
    description: str = ""
    hint: str = ""
    model: str = ""
    allowed_tools: str = ""
    is_projects: bool = False

    @property
    def runs(self) -> tuple[str, ...]:
        """Command lines whose output its text asks for."""
        return tuple(_RUN.findall(self.text))


def find_user_commands(
    folders: Mapping[Path, bool], root: Path, prefix: str = ""
) -> tuple[dict[str, UserCommand], list[Broken]]:
    """The commands in these folders, by name; a folder's value says whether it is the project's. Of two with
    one name the one found first is taken. What lies below `root` must not lead out of it. Names begin with
    the `prefix`."""
    found: dict[str, UserCommand] = {}
    broken: list[Broken] = []
    for folder, is_projects in folders.items():
        for path in markdown_files(folder):
            read = _read(path, folder, root, prefix, is_projects=is_projects)
            if isinstance(read, Broken):
                broken.append(read)
            elif read.name in found:
                broken.append(Broken(path, f"there is another command named {read.name}"))
            elif len(found) < _MAX_COMMANDS:
                found[read.name] = read
    return dict(sorted(found.items())), broken


def filled(command: UserCommand, arguments: str, outputs: Mapping[str, str]) -> str:
    """What is said. Arguments that the text has no place for stand behind it. Only what the author wrote is
    filled in: outputs and arguments are not looked through again."""
    words = _words(arguments)
    pieces = _RUN.split(command.text)  # text and commands in turn
    text = "".join(
        outputs.get(piece, "") if at % 2 else _given(piece, arguments, words)
        for at, piece in enumerate(pieces)
    ).strip()
    return text if not arguments or _GIVEN.search(command.text) else f"{text}\n\n{arguments}"


def command_line(line: str, arguments: str) -> str:
    """A command of the text with its arguments, each quoted as one word: they never become code."""
    words = [shlex.quote(word) for word in _words(arguments)]
    return _given(line, " ".join(words), words)


def without_head(text: str) -> str:
    """What stands below the head of a file."""
    return _HEAD.sub("", text, count=1)


def _given(text: str, arguments: str, words: list[str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] == "ARGUMENTS":
            return arguments
        at = int(found[1])
        return words[at - 1] if at <= len(words) else ""

    return _GIVEN.sub(value, text)


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a quote that is never closed
        return arguments.split()


def _read(path: Path, folder: Path, root: Path, prefix: str, *, is_projects: bool) -> UserCommand | Broken:
    name = prefix + ":".join(path.relative_to(folder).with_suffix("").parts)
    if not _NAME.fullmatch(name):
        return Broken(path, "its name may have letters, digits, hyphens, dots and underscores")
    whole = read_whole(path, root, max_bytes=_MAX_BYTES)
    if isinstance(whole, Broken):
        return whole
    return parse_command(name, whole, path, is_projects=is_projects)


def parse_command(name: str, whole: str, path: Path, *, is_projects: bool = False) -> UserCommand | Broken:
    """A command of this text, which stands in a file, or in a package that `path` names."""
    head = frontmatter(whole)
    text = without_head(whole) if head is not None else whole
    if not text.strip():
        return Broken(path, "it has no text")
    about = head or {}
    first = next((line.strip("# ") for line in text.splitlines() if line.strip()), "")
    return UserCommand(
        name=name,
        path=path,
        text=text,
        whole=whole,
        description=about.get("description", "") or first[:100],
        hint=about.get("argument-hint", ""),
        model=about.get("model", ""),
        allowed_tools=about.get("allowed-tools", ""),
        is_projects=is_projects,
    )


def markdown_files(folder: Path) -> Iterator[Path]:
    """Those of the folder and of the folders in it, in order; links to other folders are not followed."""
    names = _names(folder)
    yield from (folder / name for name in names if name.endswith(".md"))
    for inner in (folder / name for name in names):
        if inner.is_dir() and not inner.is_symlink():
            yield from (inner / name for name in _names(inner) if name.endswith(".md"))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []

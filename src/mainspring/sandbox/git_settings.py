"""What a git configuration says: which of its lines cannot run a program, and which files the others name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mainspring.disk.untrusted import read_start
from mainspring.patterns import lazy_pattern

SAFE_SECTIONS = frozenset(
    {"core", "remote", "branch", "user", "init", "submodule", "extensions", "pull", "push"}
)
UNSAFE_KEYS = frozenset(
    {
        "askpass",
        "attributesfile",
        "editor",
        "excludesfile",
        "fsmonitor",
        "gitproxy",
        "hookspath",
        "pager",
        "receivepack",
        "sshcommand",
        "templatedir",
        "uploadpack",
        "vcs",
        "worktree",
        "worktreeconfig",
        "alternaterefscommand",
        "update",
    }
)
SECTION = lazy_pattern(r'[ \t]*\[([A-Za-z0-9-]+)(?:\.[A-Za-z0-9.-]+|[ \t]+"(?:[^"\\]|\\.)*")?\][ \t\r]*')
SETTING = lazy_pattern(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t\r]*(?:=.*)?", re.DOTALL)
_NAMING = lazy_pattern(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*([^\n]*)")
_WORD = lazy_pattern(r"""[^\s"'`;|&()<>=!]+""")
_MAX_BYTES = 64 * 1024
_MAX_INCLUDES = 20


def safe_settings(text: str) -> str:
    """The lines of a git configuration that cannot run a program.

    Only lines that git reads as we do are kept: a section or a setting alone in its line, which ends there.
    """
    return "\n".join(line for line, is_safe in _judged(text) if is_safe)


def named_paths(git_dir: Path) -> Iterator[Path]:
    """Files that the configuration of a repository includes or runs, wherever they lie, and its folder of
    hooks. They need not exist."""
    waiting, seen = [git_dir / "config"], set[Path]()
    while waiting and len(seen) < _MAX_INCLUDES:
        config = waiting.pop()
        if config in seen:
            continue
        seen.add(config)
        # A mapping can change it without a change of its times, so it is read each time.
        for key, value in _unsafe(file_start(config, _MAX_BYTES) or b""):
            if key == "hookspath":
                yield _leads_to(git_dir.parent, value.strip(b"\"' \t\r"))
                continue
            if key == "path":  # of an include; a program may have such a key, too
                waiting.append(_leads_to(config.parent, value.strip(b"\"' \t\r")))
                yield waiting[-1]
            for word in _WORD.findall(value.decode("latin-1")):
                path = _leads_to(git_dir.parent, word.encode("latin-1"))
                if path.is_file():
                    yield path


def _unsafe(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Keys and values of the lines that may run a program or lead to another file."""
    for line, is_safe in _judged(content.decode("latin-1")):
        if not is_safe and (found := _NAMING.search(line)):
            yield found[1].casefold(), found[2].encode("latin-1")


def _judged(text: str) -> Iterator[tuple[str, bool]]:
    is_section_safe = False
    for line in text.split("\n"):
        if found := SECTION.fullmatch(line):
            is_section_safe = is_safe = found[1].casefold() in SAFE_SECTIONS
        elif found := SETTING.fullmatch(line):
            is_whole = not line.endswith(("\\", "\\\r"))
            is_safe = is_section_safe and found[1].casefold() not in UNSAFE_KEYS and is_whole
        else:
            is_safe = line.strip(" \t\r")[:1] in ("", "#", ";")
        yield line, is_safe


def pointer(path: Path, prefix: bytes) -> Path | None:
    """The path that a small git file names."""
    text = (file_start(path, 4096) or b"").strip()
    if not text or not text.startswith(prefix):
        return None
    return _leads_to(path.parent, text[len(prefix) :].strip())


def _leads_to(folder: Path, name: bytes) -> Path:
    """Where a name leads, be it a loop or far too long; git, too, reads up to a NUL byte."""
    return Path(os.path.realpath(folder / os.fsdecode(name.partition(b"\0")[0])))


def file_start(path: Path, max_bytes: int) -> bytes | None:
    """The first bytes of a file; nothing of what is none."""
    try:
        return read_start(path, max_bytes=max_bytes)
    except (OSError, ValueError):  # a name with a NUL byte is a ValueError
        return None

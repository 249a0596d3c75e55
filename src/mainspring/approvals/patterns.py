"""How a pattern of a rule or grant meets an argument list, a path or a host.

A command pattern is words: the program, then arguments, each a glob. To allow, it must be a prefix of the
command word by word (a last `*` says so aloud; a last `$` says that nothing may follow) and every word it
names must be known. To restrict, its words need only occur in order, and a word not known yet is a `maybe`.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from fnmatch import fnmatchcase
from typing import Literal

from mainspring.approvals import absolute
from mainspring.approvals.wrappers import Argv, Word

Match = Literal["no", "maybe", "yes"]

_TRUSTED_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"})


def words_of(pattern: str) -> tuple[str, ...]:
    """The words of a command pattern; raises ValueError when its quotes do not close."""
    words = tuple(shlex.split(pattern))
    return words[:-1] if len(words) > 1 and words[-1] == "*" else words


def allows(words: tuple[str, ...], argv: Argv) -> bool:
    """Whether an allowing pattern covers this command."""
    is_whole = len(words) > 1 and words[-1] == "$"
    words = words[:-1] if is_whole else words
    if not words or len(argv) < len(words) or (is_whole and len(argv) != len(words)):
        return False
    return _is_program(words[0], argv[0]) and all(map(_is_argument, words[1:], argv[1:]))


def restricts(words: tuple[str, ...], argv: Argv) -> Match:
    """Whether a pattern that asks or denies may mean this command."""
    words = words[:-1] if len(words) > 1 and words[-1] == "$" else words
    if not words or not argv:
        return "no"
    if not argv[0].is_plain:
        return "maybe"
    if not (fnmatchcase(argv[0].program, words[0]) or fnmatchcase(argv[0].text, words[0])):
        return "no"
    rest = list(argv[1:])
    answer: Match = "yes"
    for wanted in words[1:]:
        at = next((i for i, word in enumerate(rest) if word.is_plain and _fits(wanted, word.text)), None)
        if at is not None:
            rest = rest[at + 1 :]
        elif any(not word.is_plain for word in argv[1:]):
            answer = "maybe"
        else:
            return "no"
    return answer


def path_matches(pattern: str, path: str | None, *, workspace: str, home: str) -> Match:
    """`*` stays within a folder, `**` does not; a relative pattern starts at the workspace."""
    if path is None:
        return "maybe"
    if pattern.startswith("~/"):
        pattern = f"{home}{pattern[1:]}"
    rooted = absolute(pattern, cwd=workspace)
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", rooted)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    regex = "".join(wild.get(part) or re.escape(part) for part in parts)
    return "yes" if re.fullmatch(regex, path, re.DOTALL) else "no"


def host_matches(pattern: str, host: str) -> Match:
    name = host.lower().rstrip(".")
    if not name.startswith("["):
        name = name.split(":", 1)[0]
    return "yes" if fnmatchcase(name, pattern.lower()) else "no"


def _is_program(wanted: str, word: Word) -> bool:
    if not word.is_plain:
        return False
    folder, name = posixpath.split(word.text)
    return _fits(wanted, word.text) or (
        folder in _TRUSTED_FOLDERS and "/" not in wanted and _fits(wanted, name)
    )


def _is_argument(wanted: str, word: Word) -> bool:
    if wanted == "*":
        return True
    if not word.is_plain or (wanted != word.text and ".." in word.text.split("/")):
        return False
    return _fits(wanted, word.text)


def _fits(wanted: str, text: str) -> bool:
    return wanted == text or fnmatchcase(text, wanted)

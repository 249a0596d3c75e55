"""Where a path of a command lies, and which places are never ordinary.

Paths are compared as text. A relative path is resolved from every folder the command could be in; one that
cannot be known is None, and None counts as outside.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from mainspring.approvals import absolute, is_inside
from mainspring.approvals.wrappers import Argv, Word
from mainspring.sandbox.places import SECRETS_OF_HOME, STARTUP_OF_HOME
from mainspring.sandbox.policy import HELD_NAMES, PROTECTED_NAMES, Confinement, is_hidden_name


class PathLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command runs: every folder that may be current (None: unknown), and what is home."""

    workspace: str
    cwds: tuple[str | None, ...]
    home: str

    def paths(self, word: Word) -> tuple[str | None, ...]:
        """Every absolute path that a word may mean."""
        text = word.text
        at_home = re.match(r"(?:~|\$HOME|\$\{HOME\})(?=/|$)", text)
        if at_home:
            text, is_known = self.home + text[at_home.end() :], "$" not in text[at_home.end() :]
            return (absolute(text, cwd="/") if is_known and "`" not in text else None,)
        if text.startswith("~"):
            return (absolute("/home/" + text[1:], cwd="/"),)
        if not word.is_static:
            return (None,)
        if text.startswith("/"):
            return (absolute(text, cwd="/"),)
        return tuple(None if cwd is None else absolute(text, cwd=cwd) for cwd in self.cwds)

    def is_inside(self, word: Word) -> bool:
        """Whether a word surely means something below the workspace, and not the workspace itself."""
        root = absolute(self.workspace, cwd="/")
        return all(
            path is not None and path != root and is_inside(path, self.workspace) for path in self.paths(word)
        )


def _any_of(names: Iterable[str]) -> str:
    """A pattern for what lies at or below one of these names, in whatever home folder."""
    return rf"(^|/)({'|'.join(map(re.escape, names))})(/|$)"


_SYSTEM = frozenset(
    "/" + name
    for name in ("", "bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "sbin",
                 "srv", "sys", "usr", "var", "Users", "System", "Library")
)  # fmt: skip
_HELD = frozenset({*PROTECTED_NAMES, *HELD_NAMES})
_STARTS_CODE = re.compile(
    r"(^|/)\.git/(hooks|config$|config\.worktree$|info/attributes$|modules/)|(^|/)\.git$"
    r"|(^|/)\.direnv(/|$)|(^|/)\.(hg/(hgrc(-not-shared)?|sharedpath)|jj/(repo/config|workspace-config)\.toml)$"
    r"|^/etc/(profile|bash\.bashrc|cron|sudoers|ld\.so|environment|init\.d|systemd|ssh|passwd|shadow)"
    r"|(^|/)(approvals\.toml|config\.fish|crontab|authorized_keys|(sitecustomize|usercustomize)\.py)$"
    rf"|{_any_of(STARTUP_OF_HOME)}"
)
_SECRET = re.compile(
    rf"{_any_of(name for name in SECRETS_OF_HOME if name not in HELD_NAMES)}"
    r"|(^|/)\.docker(/|$)|^/etc/(shadow|gshadow|sudoers)|^/proc/([^/]+)/(environ|mem)$"
)
_NAMED = Confinement(workspace=Path())
_MAX_CWDS = 64
_DEVICE = re.compile(r"^/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|dm-|md|loop|mapper|ram|mem|kmem|port)")


def is_root_like(path: str | None, home: str) -> bool:
    """Whether losing everything below this path loses the machine or the home."""
    if path is None:
        return False
    base = re.sub(r"/[*?.\[\]!{}]*$", "", path) or "/"
    return (
        base in _SYSTEM or base == absolute(home, cwd="/") or bool(re.fullmatch(r"/(home|Users)/[^/]+", base))
    )


def is_startup(path: str | None) -> bool:
    """Whether something written here runs later by itself: rc files, hooks, editor and agent settings."""
    if path is None:
        return False
    return not _HELD.isdisjoint(path.casefold().split("/")) or bool(_STARTS_CODE.search(path))


def is_secret(path: str | None) -> bool:
    if path is None:
        return False
    return bool(_SECRET.search(path)) or is_hidden_name(posixpath.basename(path), _NAMED)


def is_device(path: str | None) -> bool:
    return path is not None and bool(_DEVICE.match(path))


def cwds_of(commands: Iterable[Argv], *, cwd: str, home: str) -> tuple[str | None, ...]:
    """Every folder that a script may be in, its `cd`s taken in any order."""
    found: list[str | None] = [absolute(cwd, cwd="/")]
    place = PathLocation(workspace=cwd, cwds=(cwd,), home=home)
    for argv in commands:
        if not argv or argv[0].program not in ("cd", "pushd", "popd", "chdir"):
            continue
        words = [word for word in argv[1:] if word.text not in ("-P", "-L", "-e", "--")]
        is_below = (
            len(words) == 1 and words[0].is_plain and ".." not in words[0].text and words[0].text != "-"
        )
        if argv[0].program == "popd" or not is_below:
            found.append(None)
        elif words[0].text.startswith(("/", "~")):
            found.extend(place.paths(words[0]))
        else:
            found.extend(absolute(words[0].text, cwd=each) for each in tuple(found) if each is not None)
        if len(found) > _MAX_CWDS:
            return (found[0], None)
    return tuple(dict.fromkeys(found))

"""Which files of a workspace are secrets: by their names, and keys by what is in them.

A key is a file like `server.pem` or `tls.key` that holds a private key. One that was written after the policy
was made is the agent's own work and stays readable; keys below a folder of packages belong to their tests.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Callable
from fnmatch import translate
from functools import cache, lru_cache
from pathlib import Path

from mainspring.disk.untrusted import read_start

HIDDEN_NAMES = (
    *(".env", ".env.*", ".envrc"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
    *("secrets.toml", "secrets.yaml", "secrets.yml", "secrets.json", "secrets.env"),
)
SHOWN_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults")
DEPENDENCIES = ("/node_modules", "/site-packages")
"""Below these, files belong to packages."""

_WILD = frozenset("*?[")
_KEYS = (".pem", ".key")
_MARK = b"PRIVATE KEY-----"
_MAX_KEY_BYTES = 256 * 1024


@cache
def names_matching(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a name fits any of these, as in a shell."""
    plain = frozenset(each for each in patterns if _WILD.isdisjoint(each))
    matched = re.compile("|".join(translate(each) for each in patterns if each not in plain) or r"(?!)").match
    return lambda name: name in plain or matched(name) is not None


def may_be_key(name: str) -> bool:
    return name[-4:].casefold() in _KEYS


def is_of_package(folder: str) -> bool:
    return any(f"{each}/" in f"{folder}/" for each in DEPENDENCIES)


def is_key(path: Path, *, begun_ns: int) -> bool:
    """Whether a file that may be one holds a private key and is older than the session. A clock that was set
    back makes files of the future, which are older, too."""
    if is_of_package(str(path.parent)):
        return False
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    is_own = begun_ns and begun_ns <= found.st_mtime_ns <= time.time_ns()
    if is_own or not stat.S_ISREG(found.st_mode):
        return False
    return _holds_key(path, (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


@lru_cache(maxsize=4096)
def _holds_key(path: Path, _version: tuple[int, ...]) -> bool:
    try:
        return _MARK in read_start(path, max_bytes=_MAX_KEY_BYTES)
    except OSError:
        return False

"""Says what is hidden in a workspace, when a session begins: a short sentence for the person and the model.

A large workspace is not looked through for that: the folders near its top are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from mainspring.disk.scan import Scan
from mainspring.sandbox.hidden import DEPENDENCIES, may_be_key
from mainspring.sandbox.policy import Confinement, is_hidden_name

_MAX_FOLDERS = 200
_MAX_NAMES = 8
_MAX_CHARACTERS = 60
_LEFT_OUT = frozenset({".git", *(name.strip("/") for name in DEPENDENCIES)})


def hidden_notice(policy: Confinement, scan: Scan) -> str:
    """Names what is hidden below the workspace; nothing when nothing is."""
    hidden = frozenset(policy.hidden_paths)
    known = [path for path in policy.held_inside() if path in hidden and path.exists()]
    found = dict.fromkeys(path for path in (*known, *_found(policy, scan)) if policy.refuses_read(path))
    if not found:
        return ""
    listed = ", ".join(_short(path.relative_to(policy.workspace)) for path in list(found)[:_MAX_NAMES])
    more = ", and more" if len(found) > _MAX_NAMES else ""
    return (
        f"Hidden from tools, and from commands where the sandbox can: {listed}{more}. A person can show them"
        " with `show` under [sandbox] in config.toml."
    )


def _found(policy: Confinement, scan: Scan) -> Iterator[Path]:
    waiting = deque([policy.workspace])
    for _ in range(_MAX_FOLDERS):
        if not waiting:
            return
        folder = waiting.popleft()
        try:
            listing = scan.read_path(str(folder))
        except OSError:
            continue
        for name in sorted(listing.names):
            if is_hidden_name(name, policy) or may_be_key(name):
                yield folder / name
            elif name in listing.folders and name not in _LEFT_OUT:
                waiting.append(folder / name)


def _short(path: Path) -> str:
    """Whoever can write to the workspace chooses the name: it stays short, and in one line."""
    text = ascii(str(path))[1:-1] if not str(path).isprintable() else str(path)
    return f"`{text}`" if len(text) <= _MAX_CHARACTERS else f"`…{text[1 - _MAX_CHARACTERS :]}`"

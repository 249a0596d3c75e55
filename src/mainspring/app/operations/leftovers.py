"""What `clean` can remove."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

LeftoverKind = Literal["contents", "exec record", "log", "cache", "unfinished session", "lock", "worktree"]


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be removed, and why. What would be lost with it is `unsaved`: then it stays, unless
    that is given up."""

    kind: LeftoverKind
    path: Path
    bytes: int
    why: str
    unsaved: str = ""

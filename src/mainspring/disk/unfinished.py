"""Names of files that this process writes beside their place and then moves there: nobody's work yet.

Only names that were made here count. A file of that kind that anybody else left is a file like any other, so
nothing can hide behind such a name.
"""

from __future__ import annotations

import secrets
from collections import deque

_PREFIX = ".mainspring-"
_made: deque[str] = deque(maxlen=1024)


def unfinished_name() -> str:
    _made.append(f"{_PREFIX}{secrets.token_hex(8)}")
    return _made[-1]


def is_unfinished(name: str) -> bool:
    return name.startswith(_PREFIX) and name in _made

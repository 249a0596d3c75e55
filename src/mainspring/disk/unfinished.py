"""Names of files that this process writes beside their place and then moves there: nobody's work yet.

Only names that were made here count. A file of that kind that anybody else left is a file like any other, so
nothing can hide behind such a name.
"""

from __future__ import annotations

import secrets
from collections import deque

_PREFIX = ".mainspring-"
_DIGITS = 16
_made: deque[str] = deque(maxlen=1024)


def unfinished_name() -> str:
    _made.append(f"{_PREFIX}{secrets.token_hex(_DIGITS // 2)}")
    return _made[-1]


def may_be_unfinished(name: str) -> bool:
    """Whether a process that died may have left a file of this name, whoever it was."""
    end = name.removeprefix(_PREFIX)
    return name != end and len(end) == _DIGITS and not end.strip("0123456789abcdef")


def is_unfinished(name: str) -> bool:
    return name.startswith(_PREFIX) and name in _made

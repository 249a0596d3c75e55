"""Regular expressions that are compiled when they are first used. A command loads dozens of modules that hold
some, uses few of them, and a pattern takes a tenth of a millisecond to compile, a hundred of them ten.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, for constants of a module. No function of `re` takes it: use its own methods."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(source, flags))


class _Uncompiled:
    """Becomes, method by method, what it compiles to: the second use of a method finds it in the instance."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found

"""`${VAR}` and `${VAR:-default}` in settings: variables, so that no secret need stand in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mainspring.patterns import lazy_pattern

_VARIABLE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def fill_variables(item: Any, environment: Mapping[str, str]) -> tuple[Any, tuple[str, ...]]:
    """A text, tuple or table with variables in the place of their names, and the names that are not set."""
    missing: dict[str, None] = {}

    def value(found: re.Match[str]) -> str:
        known = environment.get(found[1])
        if not known and found[2] is None:
            missing[found[1]] = None
        return known or found[2] or ""

    def fill(item: Any) -> Any:
        if isinstance(item, str):
            return _VARIABLE.sub(value, item)
        if isinstance(item, tuple):
            return tuple(map(fill, item))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if isinstance(item, dict):
            return {key: fill(inner) for key, inner in item.items()}  # pyright: ignore[reportUnknownVariableType]
        return item

    return fill(item), tuple(missing)

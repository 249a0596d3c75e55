"""An event without what people, models and commands wrote: ids, numbers and sizes, for logs and bug reports.

What is left out is decided by type, as for secrets: a plain text is replaced by its length; an id, a hash, a
word of this program or a `Literal` stays. A field that is added later is left out unless its type says so.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from mainspring.events.base import Exempt, Sealed

_PLAIN = (int, float, bool, type(None))
_NAMES = frozenset({"model", "tool", "version", "engine", "traceback"})
"""Texts that say what the program did and not what it was about; secrets in them are hidden on record."""


def outline(event: msgspec.Struct) -> dict[str, object]:
    """The fields that are not at their defaults, without contents."""
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(event):
        value = getattr(event, field.name)
        if value != field.default:
            hint = _hints(type(event))[field.name]
            found[field.name] = value if field.name in _NAMES else _outlined(value, hint)
    return found


@cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _outlined(value: object, hint: Any) -> object:
    if isinstance(value, msgspec.Struct):
        return outline(value)
    if isinstance(value, list | tuple):
        inner = next(iter(get_args(hint)), Any)
        return [_outlined(each, inner) for each in cast("Iterable[object]", value)]
    if isinstance(value, _PLAIN) or (isinstance(value, str) and _is_own_word(hint)):
        return value
    return _size_of(value)


def _is_own_word(hint: Any) -> bool:
    """Whether a text of this type is made by the program itself."""
    origin = get_origin(hint)
    if origin is Literal:
        return True
    if origin is Annotated:
        return hint != Sealed and any(isinstance(mark, Exempt) for mark in hint.__metadata__)
    if origin in (Union, types.UnionType):
        return all(each is type(None) or _is_own_word(each) for each in get_args(hint))
    return False


def _size_of(value: object) -> str:
    match value:
        case str():
            return f"<{len(value):,} characters>"
        case bytes() | msgspec.Raw():
            return f"<{len(bytes(value)):,} bytes>"
        case dict():
            return f"<{len(cast('dict[object, object]', value)):,} entries>"
        case _:
            return f"<{type(value).__name__}>"

"""Keys of a settings file that are not known, each with the nearest one that is.

Loaded only when a file is wrong: comparing words takes longer to load than settings take to read.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import inspect

_SURELY = 0.8
"""How alike a key of another table must be; of the same table a usual typing error is enough."""


class UnknownKey(msgspec.Struct, frozen=True):
    """A key of a table (`caps.turn`, empty at the top) that has other keys."""

    table: str
    key: str
    siblings: tuple[str, ...]


def explain_unknown(content: Mapping[str, Any], kind: type) -> str:
    """What a person is told about the first unknown key in settings of a kind; empty when there is none."""
    known = inspect.type_info(kind)
    unknown = next(_find(content, known, ""), None)
    if unknown is None:
        return ""
    nearest = _nearest(unknown, known)
    where = f"[{unknown.table}] may set" if unknown.table else "It may set"
    said = f"`{_join(unknown.table, unknown.key)}` is not a setting"
    return (
        f"{said}; did you mean `{nearest}`?"
        if nearest
        else f"{said}. {where}: {', '.join(unknown.siblings)}."
    )


def _find(content: object, kind: inspect.Type, path: str) -> Iterator[UnknownKey]:
    match kind, content:
        case inspect.StructType(fields=fields), dict():
            types = {field.encode_name: field.type for field in fields}
            for key, value in cast("dict[str, object]", content).items():
                if key in types:
                    yield from _find(value, types[key], _join(path, key))
                else:
                    yield UnknownKey(path, key, tuple(types))
        case inspect.DictType(value_type=inner), dict():
            for key, value in cast("dict[str, object]", content).items():
                yield from _find(value, inner, _join(path, key))
        case ((inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner)), list()):
            for value in cast("list[object]", content):
                yield from _find(value, inner, path)
        case _:
            return


def _nearest(unknown: UnknownKey, known: inspect.Type) -> str:
    """The full name of the key that was probably meant: of the same table, else of any."""
    for sibling in difflib.get_close_matches(unknown.key, unknown.siblings, n=1):
        return _join(unknown.table, sibling)
    elsewhere: dict[str, str] = {}
    for path in _paths(known, ""):
        elsewhere.setdefault(path.rpartition(".")[2], path)
    for key in difflib.get_close_matches(unknown.key, elsewhere, n=1, cutoff=_SURELY):
        return elsewhere[key]
    return ""


def _paths(kind: inspect.Type, path: str, above: tuple[type, ...] = ()) -> Iterator[str]:
    """The full name of every key; `NAME` stands for one that the user chooses. Structs may hold themselves:
    those `above` are not looked into again."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields) if cls not in above:
            for field in fields:
                yield _join(path, field.encode_name)
                yield from _paths(field.type, _join(path, field.encode_name), (*above, cls))
        case inspect.DictType(value_type=inner):
            yield from _paths(inner, _join(path, "NAME"), above)
        case inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner):
            yield from _paths(inner, path, above)
        case _:
            return


def _join(path: str, key: str) -> str:
    shown = key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"'
    return f"{path}.{shown}" if path else shown

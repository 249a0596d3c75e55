"""What is wrong in a settings file: an unknown key, with the nearest one that is known, or a value of another
type, with what is expected.

Loaded only when a file is wrong: comparing words takes longer to load than settings take to read.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import inspect

_PLAIN: dict[type[inspect.Type], type] = {
    inspect.BoolType: bool,
    inspect.NoneType: type(None),
    inspect.StructType: dict,
    inspect.DictType: dict,
    inspect.VarTupleType: list,
    inspect.ListType: list,
}
_SURELY = 0.8
"""How alike a key of another table must be; of the same table a usual typing error is enough."""


class UnknownKey(msgspec.Struct, frozen=True):
    """A key of a table (`caps.turn`, empty at the top) that has other keys."""

    table: str
    key: str
    siblings: tuple[str, ...]


class WrongSetting(msgspec.Struct, frozen=True):
    """A key with its full name, and what a person is told about it."""

    key: str
    said: str


def explain_invalid(content: Mapping[str, Any], kind: type) -> str:
    """What a person is told about the first unknown key, else the first wrong value, in settings of a kind;
    empty when neither is found."""
    return next((wrong.said for wrong in wrong_settings(content, kind)), "")


def wrong_settings(content: Mapping[str, Any], kind: type) -> Iterator[WrongSetting]:
    """Every unknown key, then every wrong value, in settings of a kind."""
    known = inspect.type_info(kind)
    for unknown in _find(content, known, ""):
        yield WrongSetting(join_key(unknown.table, unknown.key), _unknown(unknown, known))
    yield from _wrong_values(content, known, "")


def _unknown(unknown: UnknownKey, known: inspect.Type) -> str:
    nearest = _nearest(unknown, known)
    where = f"[{unknown.table}] may set" if unknown.table else "It may set"
    said = f"`{join_key(unknown.table, unknown.key)}` is not a setting"
    return (
        f"{said}; did you mean `{nearest}`?"
        if nearest
        else f"{said}. {where}: {', '.join(unknown.siblings)}."
    )


def _find(content: object, kind: inspect.Type, path: str) -> Iterator[UnknownKey]:
    kind = _of_shape(kind, content)
    inside = _inside(content, kind, path)
    match kind, content:
        case inspect.StructType(fields=fields), dict():
            known = tuple(field.encode_name for field in fields)
        case inspect.DictType(key_type=inspect.LiteralType(values=values)), dict():
            known = tuple(map(str, values))
        case _:
            known = None
    if known is not None:
        for key in cast("dict[str, object]", content):
            if key not in known:
                yield UnknownKey(path, key, known)
    for inner in inside:
        yield from _find(*inner)


def _inside(content: object, kind: inspect.Type, path: str) -> Iterator[tuple[object, inspect.Type, str]]:
    """The values in a table or list, each with the kind that it should be, and its full name."""
    match kind, content:
        case inspect.StructType(fields=fields), dict():
            types = {field.encode_name: field.type for field in fields}
            for key, value in cast("dict[str, object]", content).items():
                if key in types:
                    yield value, types[key], join_key(path, key)
        case inspect.DictType(value_type=inner), dict():
            for key, value in cast("dict[str, object]", content).items():
                yield value, inner, join_key(path, key)
        case ((inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner)), list()):
            for value in cast("list[object]", content):
                yield value, inner, path
        case _:
            return


def _of_shape(kind: inspect.Type, content: object) -> inspect.Type:
    """Of several kinds the only one that is a table, or a list, as the content is."""
    if not isinstance(kind, inspect.UnionType) or not isinstance(content, dict | list):
        return kind
    alike = [each for each in kind.types if _fits(cast("object", content), each)]
    return alike[0] if len(alike) == 1 else kind


def _wrong_values(content: object, kind: inspect.Type, path: str) -> Iterator[WrongSetting]:
    kind = _of_shape(kind, content)
    if not _fits(content, kind):
        yield WrongSetting(path, f"`{path}` must be {_described(kind)}, not {_shown(content)}.")
        return
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.required and field.encode_name not in cast("dict[str, object]", content):
                key = join_key(path, field.encode_name)
                yield WrongSetting(key, f"`{key}` is missing.")
    for inner in _inside(content, kind, path):
        yield from _wrong_values(*inner)


def _shown(value: object) -> str:
    return (
        "a table"
        if isinstance(value, dict)
        else "a list"
        if isinstance(value, list)
        else str(value)
        if isinstance(value, float)
        else msgspec.json.encode(value).decode()
    )


def _fits(value: object, kind: inspect.Type) -> bool:
    """Whether a value is of a kind, without what is inside of it; a kind that is not known here fits."""
    match kind:
        case inspect.UnionType(types=types):
            return any(not any(_wrong_values(value, each, "")) for each in types)
        case inspect.IntType() | inspect.FloatType():
            is_number = isinstance(value, int if isinstance(kind, inspect.IntType) else int | float)
            return is_number and not isinstance(value, bool) and _is_within(cast("float", value), kind)
        case inspect.StrType(pattern=pattern):
            return isinstance(value, str) and (pattern is None or bool(re.search(pattern, value)))
        case inspect.LiteralType(values=values):
            return value in values
        case _:
            return isinstance(value, _PLAIN.get(type(kind), object))


def _is_within(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    bounds = (kind.gt, operator.gt), (kind.ge, operator.ge), (kind.lt, operator.lt), (kind.le, operator.le)
    return all(bound is None or holds(value, bound) for bound, holds in bounds)


def _described(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType() | inspect.FloatType():
            bounds = {"more than": kind.gt, "at least": kind.ge, "less than": kind.lt, "at most": kind.le}
            said = [f"{word} {bound:,.12g}" for word, bound in bounds.items() if bound is not None]
            name = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
            return " ".join([name, " and ".join(said)]).strip()
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(f'"{value}"' for value in values)
        case inspect.UnionType(types=types):
            return " or ".join(_described(each) for each in types if not isinstance(each, inspect.NoneType))
        case inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner):
            return f"a list, of which each is {_described(inner)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType(pattern=pattern):
            return "a text in quotes" + (f" that matches {pattern}" if pattern else "")
        case _:
            return "a table"


def _nearest(unknown: UnknownKey, known: inspect.Type) -> str:
    """The full name of the key that was probably meant: of the same table, else of any."""
    if sibling := nearest_word(unknown.key, unknown.siblings):
        return join_key(unknown.table, sibling)
    elsewhere: dict[str, str] = {}
    for path in _paths(known, ""):
        elsewhere.setdefault(path.rpartition(".")[2], path)
    return elsewhere.get(nearest_word(unknown.key, elsewhere, cutoff=_SURELY), "")


def nearest_word(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known word that was probably meant, empty when none is near: one of the same letters, else the
    most similar."""
    words = list(known)
    swapped = [each for each in words if sorted(each) == sorted(word)]
    return next(iter(swapped or difflib.get_close_matches(word, words, n=1, cutoff=cutoff)), "")


def _paths(kind: inspect.Type, path: str, above: tuple[type, ...] = ()) -> Iterator[str]:
    """The full name of every key; `NAME` stands for one that the user chooses. Structs may hold themselves:
    those `above` are not looked into again."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields) if cls not in above:
            for field in fields:
                yield join_key(path, field.encode_name)
                yield from _paths(field.type, join_key(path, field.encode_name), (*above, cls))
        case inspect.DictType(value_type=inner):
            yield from _paths(inner, join_key(path, "NAME"), above)
        case inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner):
            yield from _paths(inner, path, above)
        case _:
            return


def join_key(path: str, key: str) -> str:
    """The full name of a key in a table, with quotes where TOML wants them."""
    shown = key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"'
    return f"{path}.{shown}" if path else shown

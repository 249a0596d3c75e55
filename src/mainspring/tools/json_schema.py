"""Checks a JSON value against a JSON schema: the keywords that schemas of data use, and no others.

`check_schema` refuses a schema with a keyword that is not checked here, so that nothing passes unseen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from mainspring.errors import UsageError

_NOTES = frozenset(
    (
        "$schema",
        "$id",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "format",
    )
)
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
}
_Bound = tuple[str, Callable[[Any], bool], Callable[[Any, Any], bool]]
_BOUNDS: tuple[_Bound, ...] = (
    ("minimum", _TYPES["number"], lambda value, bound: value >= bound),
    ("maximum", _TYPES["number"], lambda value, bound: value <= bound),
    ("exclusiveMinimum", _TYPES["number"], lambda value, bound: value > bound),
    ("exclusiveMaximum", _TYPES["number"], lambda value, bound: value < bound),
    ("minLength", _TYPES["string"], lambda value, bound: len(value) >= bound),
    ("maxLength", _TYPES["string"], lambda value, bound: len(value) <= bound),
    ("pattern", _TYPES["string"], lambda value, bound: re.search(bound, value) is not None),
    ("minItems", _TYPES["array"], lambda value, bound: len(value) >= bound),
    ("maxItems", _TYPES["array"], lambda value, bound: len(value) <= bound),
)
_KNOWN = frozenset(name for name, *_ in _BOUNDS) | {
    *("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"),
    *("properties", "required", "additionalProperties", "items", "prefixItems"),
}

_MOST_NESTED = 100  # what all servers read


def check_schema(schema: Any) -> None:
    """Raises `UsageError` for what is no schema of an object, or has keywords that are not checked here."""
    if not isinstance(schema, dict) or cast("dict[str, Any]", schema).get("type") != "object":
        raise UsageError(
            "The schema of the output must be a JSON object with type `object`.",
            remedy='Put other values into a field: {"type": "object", "properties": {"value": …}}.',
        )
    if _is_too_deep(schema):
        raise UsageError(
            f"The schema of the output is nested more than {_MOST_NESTED} deep.", remedy="Make it flatter."
        )
    _check(cast("dict[str, Any]", schema), cast("dict[str, Any]", schema))


def _is_too_deep(schema: Any) -> bool:
    level: dict[int, Any] = {id(schema): schema}
    for _ in range(_MOST_NESTED):
        level = {id(each): each for value in level.values() for each in _inside(value)}
    return bool(level)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _check(schema: Any, root: Mapping[str, Any]) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise UsageError(f"{schema!r} is not a JSON schema object.")
    fields = cast("dict[str, Any]", schema)
    unknown = sorted(fields.keys() - _KNOWN - _NOTES)
    if unknown:
        raise UsageError(
            f"The schema of the output uses {', '.join(unknown)}, which is not supported.",
            remedy=f"Use only {', '.join(sorted(_KNOWN))}.",
        )
    for name in _names(fields.get("type", [])):
        if name not in _TYPES:
            raise UsageError(f"The schema of the output has the unknown type {name!r}.")
    if "pattern" in fields:
        try:
            re.compile(fields["pattern"])
        except (re.error, TypeError) as error:
            raise UsageError(
                f"The pattern {fields['pattern']!r} of the schema cannot be used: {error}.",
                remedy="Write it as Python does.",
            ) from error
    if "$ref" in fields:
        _resolve(fields["$ref"], root)
    for inner in _inner(fields):
        _check(inner, root)


def _inner(schema: dict[str, Any]) -> Iterator[Any]:
    """The schemas inside a schema."""
    for name in ("properties", "$defs", "definitions"):
        yield from schema.get(name, {}).values()
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        yield from schema.get(name, [])
    yield from (schema[name] for name in ("items", "additionalProperties") if name in schema)


def problem_with(value: Any, schema: Mapping[str, Any]) -> str:
    """What about the value does not fit, with its place; empty when it fits."""
    return _problem(value, schema, schema, "$")


def shallow_problem(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What about a call's arguments cannot be right: a field that is missing or unknown. The rest is for the
    server to check, whose schemas may say what we do not know."""
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        return f"{', '.join(map(str, missing))} missing"
    unknown = [name for name in arguments if name not in properties]
    return f"unknown field {unknown[0]}" if unknown and schema.get("additionalProperties") is False else ""


def _problem(value: Any, schema: Any, root: Mapping[str, Any], at: str) -> str:
    if isinstance(schema, bool):
        return "" if schema else f"{at}: nothing is allowed here"
    if "$ref" in schema:
        return _problem(value, _resolve(schema["$ref"], root), root, at)
    return _own_problem(value, schema, at) or _inner_problem(value, schema, root, at)


def _own_problem(value: Any, schema: Mapping[str, Any], at: str) -> str:
    types = _names(schema.get("type", []))
    if types and not any(_TYPES[name](value) for name in types):
        return f"{at}: expected {' or '.join(types)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at}: must be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        return f"{at}: must be {schema['const']!r}"
    for name, concerns, holds in _BOUNDS:
        if name in schema and concerns(value) and not holds(value, schema[name]):
            return f"{at}: breaks {name} {schema[name]}"
    return ""


def _inner_problem(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: str) -> str:
    for inner in schema.get("allOf", ()):
        if problem := _problem(value, inner, root, at):
            return problem
    for name in ("anyOf", "oneOf"):
        problems = [_problem(value, inner, root, at) for inner in schema.get(name, ())]
        fitting = problems.count("")
        if problems and (not fitting or (name == "oneOf" and fitting > 1)):
            return (
                problems[0]
                if len(problems) == 1
                else f"{at}: fits {fitting or 'none'} of {len(problems)} forms"
            )
    if isinstance(value, dict):
        return _object_problem(cast("dict[str, Any]", value), schema, root, at)
    if isinstance(value, list):
        return _list_problem(cast("list[Any]", value), schema, root, at)
    return ""


def _object_problem(
    value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> str:
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{at}: {', '.join(missing)} missing"
    properties = schema.get("properties", {})
    for name, inner in value.items():
        rule = properties.get(name, schema.get("additionalProperties", True))
        if rule is False:
            return f"{at}: unknown field {name}; fields are {', '.join(properties)}"
        if problem := _problem(inner, rule, root, f"{at}.{name}"):
            return problem
    return ""


def _list_problem(value: list[Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str) -> str:
    first = schema.get("prefixItems", ())
    for position, inner in enumerate(value):
        rule = first[position] if position < len(first) else schema.get("items", True)
        if problem := _problem(inner, rule, root, f"{at}[{position}]"):
            return problem
    return ""


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    """What a reference means in the end; `UsageError` when it leads nowhere, or back to itself."""
    seen = {reference}
    found = _referenced(reference, root)
    while isinstance(found, dict) and "$ref" in found:
        reference = str(cast("dict[str, Any]", found)["$ref"])
        if reference in seen:
            raise UsageError(f"The schema of the output refers to {reference} in a circle.")
        seen.add(reference)
        found = _referenced(reference, root)
    return cast("Any", found)


def _referenced(reference: str, root: Mapping[str, Any]) -> Any:
    place: Any = root
    for key in reference.removeprefix("#").split("/")[1:]:
        if not isinstance(place, dict) or key not in place:
            raise UsageError(f"The schema of the output refers to {reference}, which is not in it.")
        place = cast("dict[str, Any]", place)[key]
    return place


def _names(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else list(types)

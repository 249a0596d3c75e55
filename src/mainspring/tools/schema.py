"""Schemas from types, and sentences from what does not fit them."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints, overload

import msgspec
from msgspec import Meta

from mainspring.approvals import Effect
from mainspring.errors import UsageError
from mainspring.events import ToolSpec
from mainspring.models.loose_json import loads
from mainspring.patterns import lazy_pattern
from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.json_schema import shallow_problem

T = TypeVar("T")
_MAX_DEPTH = 100
_STRINGS = lazy_pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = lazy_pattern(r"[\[\]{}]")


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a call is given; a tool derives its own fields."""


def spec_of(tool: Tool) -> ToolSpec:
    if tool.parameters is not None:
        return ToolSpec(name=tool.name, description=tool.description, parameters=dict(tool.parameters))
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=_lean(parameters_of(tool.arguments), is_ours=issubclass(tool.arguments, Arguments)),
    )


def parameters_of(arguments: Any) -> dict[str, Any]:
    """The JSON schema of a struct type, or another with fields, without references or titles: small
    models stumble over both."""
    (schema,), components = msgspec.json.schema_components(
        (arguments,), ref_template="{name}", schema_hook=_schema_of
    )
    resolved = _resolve(schema, components)
    resolved.setdefault("properties", {})
    return {key: resolved[key] for key in sorted(resolved) if key != "description"}


def convert_value(value: Any, kind: Any) -> Any:
    """A decoded value as an instance of a type; raises `ValueError` with the field that does not fit."""
    return msgspec.convert(value, kind, dec_hook=_validated)


def _resolve(node: Any, components: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_resolve(item, components) for item in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    found = cast("dict[str, Any]", node)
    if "$defs" in found:
        components = {**components, **{f"#/$defs/{name}": value for name, value in found["$defs"].items()}}
    if "$ref" in found:
        return _resolve(components[found["$ref"]], components)
    return {
        key: _resolve(value, components)
        for key, value in found.items()
        if key != "$defs" and (key != "title" or isinstance(value, dict))
    }


_NOTHING: tuple[Any, ...] = (None, False, 0, "", [], (), {})
_UNSAID: Mapping[str, tuple[Any, ...]] = {
    "default": _NOTHING,
    "required": ([],),
    "additionalProperties": (False,),
    "minLength": (1,),
    "minItems": (1,),
    "exclusiveMinimum": (0,),
    "minimum": (0, 1),
}
_GENEROUS = {"maximum": 1000, "maxLength": 500, "maxItems": 100}
"""Limits from which on nobody reaches them by chance."""


def _lean(node: Any, *, is_ours: bool) -> Any:
    """A schema without what a model assumes anyway: every request pays for each word of it. What it does not
    say is checked all the same when a call is made. Ours leave out numbers that a model need not know."""
    lean = partial(_lean, is_ours=is_ours)
    if isinstance(node, list):
        return [lean(item) for item in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    found = cast("dict[str, Any]", node)
    if len(given := [kind for kind in found.get("anyOf", ()) if kind != {"type": "null"}]) == 1:
        found = {**{key: value for key, value in found.items() if key != "anyOf"}, **given[0]}
    if is_ours and "" in found.get("enum", ()):
        found["enum"] = [each for each in found["enum"] if each]
    return {
        key: {name: lean(field) for name, field in value.items()} if key == "properties" else lean(value)
        for key, value in found.items()
        if not any(value is unsaid or value == unsaid for unsaid in _UNSAID.get(key, ()))
        and not (is_ours and _is_spared(key, value))
    }


def _is_spared(key: str, value: Any) -> bool:
    if key == "default":
        return value == "." or isinstance(value, int | float)
    return key in _GENEROUS and value >= _GENEROUS[key]


def decode_arguments(tool: Tool, text: str) -> msgspec.Struct | dict[str, Any] | str:
    """The arguments of a call, or the sentence that tells the model what is wrong with them."""
    if _is_too_deep(text):
        return f"The arguments of {tool.name} are nested more than {_MAX_DEPTH} deep. Send them flatter."
    try:
        value = loads(text or "{}")
        # JSON in a text, as models write it
        value = loads(value) if isinstance(value, str) and value.strip() else value
    except ValueError as error:
        return f"The arguments of {tool.name} are not valid JSON ({error}). Send one JSON object."
    if not isinstance(value, dict):
        return f"The arguments of {tool.name} must be a JSON object, not {_json_name(value)}."
    if tool.parameters is not None:
        given = cast("dict[str, Any]", value)
        problem = shallow_problem(given, tool.parameters)
        fields = ", ".join(tool.parameters.get("properties", ())) or "none"
        told = f"The arguments of {tool.name} do not fit: {problem}. Its fields are: {fields}."
        return told if problem else given
    try:
        return msgspec.convert(value, tool.arguments, dec_hook=_validated)
    except msgspec.ValidationError as error:
        if (meant := _as_meant(cast("dict[str, Any]", value), tool.arguments)) is not None:
            return meant
        fields = ", ".join(tool.arguments.__struct_fields__) or "none"
        reason = _located(str(error), parameters_of(tool.arguments))
        return f"The arguments of {tool.name} do not fit: {reason}. Its fields are: {fields}."


def _as_meant(value: dict[str, Any], arguments: type[msgspec.Struct]) -> msgspec.Struct | None:
    """Arguments with numbers, lists and the like in the form of a text (small models write `"3"`), or with
    the fields of a list's only item beside it or in its place."""
    given = {name: _unpacked(field) for name, field in value.items()}
    for fields in (value, given, _gathered(given, arguments)):
        try:
            return msgspec.convert(fields, arguments, dec_hook=_validated, strict=False)
        except msgspec.ValidationError:
            continue
    return None


def _gathered(value: dict[str, Any], arguments: type[msgspec.Struct]) -> dict[str, Any]:
    fields = msgspec.structs.fields(arguments)
    beside = {name: value[name] for name in value if all(name != field.name for field in fields)}
    for field in fields:
        kind = get_args(field.type)[0] if get_origin(field.type) is Annotated else field.type
        if get_origin(kind) is not tuple:
            continue
        if isinstance(value.get(field.name), dict):
            return {**value, field.name: [value[field.name]]}
        if beside and field.name not in value:
            kept = {name: each for name, each in value.items() if name not in beside}
            return {**kept, field.name: [beside]}
    return value


def _unpacked(field: Any) -> Any:
    if not isinstance(field, str) or not field.lstrip().startswith(("[", "{")):
        return field
    try:
        return loads(field)
    except ValueError:
        return field


def _is_too_deep(text: str) -> bool:
    """Whether lists and objects lie so deep in each other that code which looks into all of them fails."""
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return False
    depth = 0
    for mark in _BRACKETS.findall(_STRINGS.sub("", text)):
        depth += 1 if mark in "[{" else -1
        if depth > _MAX_DEPTH:
            return True
    return False


def _located(message: str, schema: dict[str, Any]) -> str:
    """The message of a validation with its field first: "limit: expected `int`, got `str`", and with what
    would fit there, where that is a list."""
    found = re.fullmatch(r"(.*) - at `(?:\$\.?)?(.*)`", message, re.DOTALL)
    if not found or not found[2]:
        return message
    told = f"{found[2]}: {found[1][:1].lower()}{found[1][1:]}"
    for name, is_item in re.findall(r"([A-Za-z_]\w*)(\[)?", found[2]):
        schema = schema.get("properties", {}).get(name, {})
        schema = schema.get("items", {}) if is_item else schema
    if "enum value" in message and "enum" in schema:
        return f"{told}; it must be one of: {', '.join(map(str, schema['enum']))}"
    return f"{told}; fields there are: {', '.join(schema['properties'])}" if "properties" in schema else told


Function = Callable[..., Awaitable[Output | str]]
Price = float | Callable[..., float | None] | None
Recurrence = bool | Callable[..., bool]
EffectOfCall = Effect | Callable[..., Effect]


@overload
def tool(
    function: Function, *, effect: EffectOfCall = ..., cost_usd: Price = ..., is_recurring: Recurrence = ...
) -> Tool: ...


@overload
def tool(
    *, effect: EffectOfCall = ..., cost_usd: Price = ..., is_recurring: Recurrence = ...
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    *,
    effect: EffectOfCall = "execute",
    cost_usd: Price = 0.0,
    is_recurring: Recurrence = False,
) -> Tool | Callable[[Function], Tool]:
    """Makes a tool of a typed async function: its name, docstring and signature are what the model sees.

    Used as `@tool` or `@tool(effect="read")`. `Annotated[int, "what it means"]` describes a parameter. A
    parameter named `place` receives the `CallContext` of the call and is not part of the schema. Pydantic
    models are accepted as types.

    `effect` is what a call changes: a word, or a function of the same arguments, so that reading is free and
    deleting is asked. `cost_usd` is what a call costs at most: a number, a function of the same arguments, or
    None when nobody knows, which is always asked. `is_recurring`, which may be a function too, marks a call
    that takes effect later or again.
    """
    make = partial(_tool, effect=effect, cost_usd=cost_usd, is_recurring=is_recurring)
    return make if function is None else make(function)


def _tool(function: Function, *, effect: EffectOfCall, cost_usd: Price, is_recurring: Recurrence) -> Tool:
    name = getattr(function, "__name__", f"of the type {type(function).__name__}")
    if not inspect.iscoroutinefunction(function):
        remedy = "Write an async function with types and a docstring that calls it."
        raise UsageError(f"The tool {name} must be an async function.", remedy=remedy)
    if not callable(effect) and effect not in get_args(Effect):
        words = ", ".join(get_args(Effect))
        raise UsageError(
            f"The tool {name} cannot have the effect {effect!r}.", remedy=f"It is one of {words}."
        )
    description = inspect.getdoc(function)
    if not description:
        raise UsageError(f"The tool {name} needs a docstring: it is what the model reads.")
    parameters = dict(inspect.signature(function).parameters)
    wants_place = parameters.pop("place", None) is not None
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UsageError(f"The tool {name} has a type that is not defined: {error}.") from error
    fields = [_field(name, parameter, hints) for parameter in parameters.values()]
    arguments = msgspec.defstruct(
        f"{name}_arguments", fields, frozen=True, forbid_unknown_fields=True, kw_only=True
    )

    async def run(given: msgspec.Struct, place: CallContext) -> Output | str:
        named = {field: getattr(given, field) for field in given.__struct_fields__}
        return await (function(**named, place=place) if wants_place else function(**named))

    made = Tool(
        name=name,
        description=description,
        arguments=arguments,
        effect="execute" if callable(effect) else effect,
        effect_of=_of_arguments(effect) if callable(effect) else None,
        run=run,
        cost_usd=None if cost_usd == 0.0 else _of_arguments(cost_usd),
        is_recurring=_of_arguments(is_recurring),
    )
    try:
        spec_of(made)
    except TypeError as error:
        raise UsageError(f"The tool {name} has a parameter without a JSON schema: {error}.") from error
    return made


def _of_arguments(value: T | Callable[..., T]) -> Callable[[msgspec.Struct], T]:
    """A function of a call's arguments, of one that takes them by name or of what is the same for all."""
    if callable(value):
        told = cast("Callable[..., T]", value)
        return lambda given: told(**{field: getattr(given, field) for field in given.__struct_fields__})
    return lambda _: value


def _field(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> tuple[str, Any, Any]:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise UsageError(f"The tool {name} cannot have the parameter {parameter}: each needs a name.")
    if parameter.name not in hints:
        raise UsageError(f"The parameter {parameter.name} of the tool {name} needs a type.")
    return parameter.name, _described(hints[parameter.name]), _default(parameter)


def _default(parameter: inspect.Parameter) -> Any:
    """A default that could be changed is made anew for each call."""
    if parameter.default is inspect.Parameter.empty:
        return msgspec.NODEFAULT
    if type(parameter.default) in (list, dict, set):
        return msgspec.field(default_factory=partial(copy.deepcopy, parameter.default))
    return parameter.default


def _described(hint: Any) -> Any:
    """A plain text in `Annotated` is the description of its parameter."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    if not any(isinstance(note, str) for note in notes):
        return hint
    meta = [Meta(description=note) if isinstance(note, str) else note for note in notes]
    for note in meta:
        kind = Annotated[kind, note]
    return kind


def _validated(kind: type[Any], value: Any) -> Any:
    """Pydantic models validate themselves; their errors are told with the field."""
    if not hasattr(kind, "model_validate"):
        raise NotImplementedError
    return kind.model_validate(value)


def _schema_of(kind: type[Any]) -> dict[str, Any]:
    if not hasattr(kind, "model_json_schema"):
        raise NotImplementedError
    return kind.model_json_schema()


def _json_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "a number"

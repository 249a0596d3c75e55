"""Schemas from types, and sentences from what does not fit them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

import msgspec

from mainspring.approvals import Effect
from mainspring.errors import UsageError
from mainspring.events import ToolSpec
from mainspring.tools import Output, Place, Tool


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a call is given; a tool derives its own fields."""


def spec_of(tool: Tool) -> ToolSpec:
    return ToolSpec(name=tool.name, description=tool.description, parameters=parameters_of(tool.arguments))


def parameters_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a struct type, without references or titles: small models stumble over both."""
    (schema,), components = msgspec.json.schema_components((arguments,), ref_template="{name}")
    resolved = _resolve(schema, components)
    resolved.setdefault("properties", {})
    return {key: resolved[key] for key in sorted(resolved) if key != "description"}


def _resolve(node: Any, components: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_resolve(item, components) for item in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolve(components[node["$ref"]], components)
    return {
        key: _resolve(value, components)
        for key, value in node.items()  # pyright: ignore[reportUnknownVariableType]
        if key != "title" or isinstance(value, dict)
    }


def decode_arguments(tool: Tool, text: str) -> msgspec.Struct | str:
    """The arguments of a call, or the sentence that tells the model what is wrong with them."""
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError) as error:
        return f"The arguments of {tool.name} are not valid JSON ({error}). Send one JSON object."
    if not isinstance(value, dict):
        return f"The arguments of {tool.name} must be a JSON object, not {_json_name(value)}."
    try:
        return msgspec.convert(value, tool.arguments)
    except msgspec.ValidationError as error:
        fields = ", ".join(tool.arguments.__struct_fields__)
        return f"The arguments of {tool.name} do not fit: {error}. Its fields are: {fields}."


def tool(function: Callable[..., Awaitable[Output | str]], *, effect: Effect = "execute") -> Tool:
    """Makes a tool of a typed async function: its name, docstring and signature are what the model sees.

    A parameter named `place` receives the `Place` of the call and is not part of the schema.
    """
    name = function.__name__
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"The tool {name} must be an async function.")
    description = inspect.getdoc(function)
    if not description:
        raise UsageError(f"The tool {name} needs a docstring: it is what the model reads.")
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, type] | tuple[str, type, Any]] = []
    wants_place = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "place":
            wants_place = True
        elif parameter.name not in hints:
            raise UsageError(f"The parameter {parameter.name} of the tool {name} needs a type.")
        elif parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, hints[parameter.name]))
        else:
            fields.append((parameter.name, hints[parameter.name], parameter.default))
    arguments = msgspec.defstruct(f"{name}_arguments", fields, frozen=True, forbid_unknown_fields=True)

    async def run(given: msgspec.Struct, place: Place) -> Output | str:
        named = {field: getattr(given, field) for field in given.__struct_fields__}
        return await (function(**named, place=place) if wants_place else function(**named))

    return Tool(name=name, description=description, arguments=arguments, effect=effect, run=run)


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

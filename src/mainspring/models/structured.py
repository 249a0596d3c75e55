"""Structured output where a wire has no field for it: the arguments of a tool that must be called.

`with_answer_tool` adds that tool to a request, `answered` turns its call into the text of the reply.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import msgspec

from mainspring.events import CallDelta, TextDelta, ToolSpec, tool_of
from mainspring.models import ReplyFinished, Request, Retrying, StreamItem

ANSWER = "final_answer"
_DESCRIPTION = "Gives the final answer. Call it when you are finished, and only then."
_LIMITS = frozenset(
    (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems"),
    )
)


def with_answer_tool(request: Request) -> Request:
    answer = ToolSpec(name=ANSWER, description=_DESCRIPTION, parameters=request.schema or {})
    return msgspec.structs.replace(request, tools=(*request.tools, answer), schema=None, must_call=True)


async def answered(items: AsyncGenerator[StreamItem]) -> AsyncGenerator[StreamItem]:
    """The stream with the answer as text. Other text is held back, and dropped when there is an answer."""
    held: list[TextDelta] = []
    answers, has_calls = set[int](), False
    async with aclosing(items):
        async for item in items:
            match item:
                case TextDelta():
                    held.append(item)
                case CallDelta():
                    if tool_of(item.name) == ANSWER:
                        answers.add(item.index)
                    if item.index not in answers:
                        has_calls = True
                        yield item
                    elif item.arguments:
                        yield TextDelta(text=item.arguments)
                case Retrying():
                    held, answers, has_calls = [], set[int](), False
                    yield item
                case ReplyFinished():
                    for text in held if not answers else ():
                        yield text
                    is_over = item.stop == "calls" and bool(answers) and not has_calls
                    yield msgspec.structs.replace(item, stop="end") if is_over else item
                case _:
                    yield item


def named_schema(schema: Any) -> dict[str, Any]:
    """A schema as OpenAI's wires take it. Servers make grammars of it: fields are written in the order in
    which they stand here, which is kept."""
    ordered = msgspec.Raw(msgspec.json.encode(schema))
    return {"name": "reply", "schema": ordered, "strict": is_strict(schema)}


def is_strict(schema: Any) -> bool:
    """Whether every object of a schema names all of its fields, and requires them."""
    if isinstance(schema, list):
        return all(map(is_strict, cast("list[Any]", schema)))
    if not isinstance(schema, dict):
        return True
    fields = cast("dict[str, Any]", schema)
    if fields.get("type") == "object":
        named = set(cast("dict[str, Any]", fields.get("properties", {})))
        if fields.get("additionalProperties") is not False or named != set(fields.get("required", ())):
            return False
    return all(map(is_strict, fields.values()))


def has_maps(schema: Any) -> bool:
    """Whether an object of a schema may have fields that it does not name."""
    if isinstance(schema, list):
        return any(map(has_maps, cast("list[Any]", schema)))
    if not isinstance(schema, dict):
        return False
    fields = cast("dict[str, Any]", schema)
    if fields.get("type") == "object":
        others = fields.get("additionalProperties")
        if isinstance(others, dict) or others is True or "properties" not in fields:
            return True
    return any(map(has_maps, fields.values()))


def without_limits(schema: Any) -> Any:
    """A schema for a provider that refuses bounds, and objects that are open to other fields."""
    if isinstance(schema, list):
        return [without_limits(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    kept: dict[str, Any] = {}
    for key, value in fields.items():
        if key == "properties":
            kept[key] = {name: without_limits(inner) for name, inner in value.items()}
        elif key not in _LIMITS:
            kept[key] = without_limits(value)
    if fields.get("type") == "object":
        kept["additionalProperties"] = False
    return kept

"""What a server asks a person in the middle of a call, as a question of ours; and the answer, as it wants it.

Servers ask for a flat object. One field is answered with its value alone, several with `name=value` in lines
or between commas, or with the whole as JSON. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from mainspring.events.decoding import DECODE_ERRORS
from mainspring.patterns import lazy_pattern

_MAX_MESSAGE = 2000
_PAIRS = lazy_pattern(r"[,;\n]\s*(?=[\w.-]+\s*=)")
_YES, _NO = ("yes", "y", "true", "1", "on"), ("no", "n", "false", "0", "off")


def question(server: str, message: str, schema: Mapping[str, Any], url: str = "") -> str:
    """What the person reads."""
    message = message[:_MAX_MESSAGE]
    if url:
        return f"The MCP server {server} asks you to visit {url}\n{message}\nSay yes when it is done."
    fields = _fields(schema)
    lines = [f"The MCP server {server} asks: {message}"]
    lines += [f"  {name}{_about(field)}" for name, field in fields.items()]
    if len(fields) > 1:
        lines.append(f"Answer with {', '.join(f'{name}=…' for name in fields)}.")
    return "\n".join(lines)


def content(answer: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the server is sent; None when the answer does not fit what it asked for."""
    fields, given = _fields(schema), _given(answer.strip(), _fields(schema))
    required = cast("list[str]", schema.get("required") or [])
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in fields or (value := _value(text, fields[name])) is None:
            return None
        values[name] = value
    missing = [name for name in required if name not in values]
    return None if missing else values


def _given(answer: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        whole = msgspec.json.decode(answer)
    except DECODE_ERRORS:
        whole = None
    if isinstance(whole, dict):
        return cast("dict[str, Any]", whole)
    pairs = [pair.partition("=") for pair in _PAIRS.split(answer)]
    if all(equals and name.strip() in fields for name, equals, _ in pairs):
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {next(iter(fields)): answer} if len(fields) == 1 and answer else {}


def _value(given: Any, field: Mapping[str, Any]) -> Any:
    text = str(given).strip()
    if choices := field.get("enum"):
        known = {str(choice).lower(): choice for choice in cast("list[Any]", choices)}
        return known.get(text.lower())
    match field.get("type"):
        case "boolean":
            return True if text.lower() in _YES else False if text.lower() in _NO else None
        case "integer" | "number" as kind:
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                return None
        case "array":
            listed = cast("list[Any]", given) if isinstance(given, list) else text.split("|")
            return [each.strip() if isinstance(each, str) else each for each in listed]
        case _:
            return text


def _fields(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found = schema.get("properties")
    return cast("dict[str, Mapping[str, Any]]", found) if isinstance(found, dict) else {}


def _about(field: Mapping[str, Any]) -> str:
    choices = cast("list[Any]", field.get("enum") or [])
    told = [str(field.get("title") or ""), str(field.get("description") or "")]
    told.append("one of " + ", ".join(map(str, choices)) if choices else str(field.get("type") or ""))
    text = "; ".join(filter(None, dict.fromkeys(told)))
    return f": {text}" if text else ""

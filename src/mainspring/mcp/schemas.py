"""Schemas of servers' tools, made plain: no references, nothing that a model has no use for, never too large.

A reference that leads back into itself is cut where it begins to repeat: any value is allowed there, and the
server itself says what it does not take. Equal schemas give equal bytes.
"""

from __future__ import annotations

from typing import Any, cast

_MAX_NODES = 3000
_MAX_DEPTH = 24
_MAX_TEXT = 1000
_DROPPED = frozenset(("$schema", "$id", "$comment", "$defs", "definitions", "title", "examples", "$anchor"))
_NAMED = frozenset(("properties", "patternProperties"))
_ANY: dict[str, Any] = {}


def plain_schema(schema: Any) -> dict[str, Any]:
    """The schema of an object that the model sees; one that is none, or too large, allows anything."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    root = cast("dict[str, Any]", schema)
    try:
        made = _Plain(root).node(root, 0)
    except (_TooLarge, RecursionError):
        names = cast("list[str]", sorted(root.get("properties", ())))
        made = {"properties": {name: dict(_ANY) for name in names}, "required": root.get("required", [])}
    made = cast("dict[str, Any]", made if isinstance(made, dict) else {})
    made["type"] = "object"
    if not isinstance(made.get("properties"), dict):
        made["properties"] = {}
    return {key: made[key] for key in sorted(made)}


class _TooLarge(Exception):
    pass


class _Plain:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._nodes = 0
        self._open: list[str] = []

    def node(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise _TooLarge
        if isinstance(value, list):
            return [self.node(item, depth + 1) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value[:_MAX_TEXT] if isinstance(value, str) else value
        if depth > _MAX_DEPTH:
            return _ANY
        found = cast("dict[str, Any]", value)
        if isinstance(reference := found.get("$ref"), str):
            return self._referenced(reference, found, depth)
        return {key: self._field(key, found[key], depth) for key in sorted(found) if key not in _DROPPED}

    def _field(self, key: str, value: Any, depth: int) -> Any:
        if key in _NAMED and isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {name: self.node(fields[name], depth + 1) for name in fields}
        return self.node(value, depth + 1)

    def _referenced(self, reference: str, found: dict[str, Any], depth: int) -> Any:
        target = self._target(reference)
        if reference in self._open or not isinstance(target, dict):
            return dict(_ANY)
        self._open.append(reference)
        try:
            beside = {key: value for key, value in found.items() if key != "$ref"}
            return self.node({**cast("dict[str, Any]", target), **beside}, depth + 1)
        finally:
            self._open.pop()

    def _target(self, reference: str) -> Any:
        place: Any = self._root
        if not reference.startswith("#"):
            return None
        for key in reference.removeprefix("#").split("/")[1:]:
            name = key.replace("~1", "/").replace("~0", "~")
            place = cast("dict[str, Any]", place).get(name) if isinstance(place, dict) else None
        return place

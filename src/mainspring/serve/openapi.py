"""The OpenAPI document of the server, made from the table of its operations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from mainspring import __version__
from mainspring.serve.api import ROUTES
from mainspring.serve.routes import PREFIX, Route

_ERRORS = {
    "400": "The request cannot be understood or done.",
    "401": "There is no token, or it is not known.",
    "403": "The device may not do this, or the request comes from elsewhere.",
    "404": "There is no such session.",
    "409": "Another process runs the session.",
    "507": "The disk of the server is full, or cannot be written.",
}


def document() -> dict[str, Any]:
    """What `/api/v1/openapi.json` answers."""
    kinds = [each.takes for each in ROUTES] + [each.gives for each in ROUTES if each.gives is not bytes]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}", schema_hook=_schema
    )
    takes, gives = schemas[: len(ROUTES)], iter(schemas[len(ROUTES) :])
    paths: dict[str, dict[str, Any]] = {}
    for route, taken in zip(ROUTES, takes, strict=True):
        given = None if route.gives is bytes else next(gives)
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(
            route, taken, given, components
        )
    for path, summary, names in _STREAMS:
        paths[PREFIX + path] = {"get": _stream(path, summary, names)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "mainspring", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_STREAMS = (
    ("/sessions/{session}/stream", "Events of a session as they are recorded.", ("after",)),
    ("/stream", "Sessions and open questions as they change.", ()),
)


def _operation(
    route: Route, taken: dict[str, Any], given: dict[str, Any] | None, components: dict[str, Any]
) -> dict[str, Any]:
    content: dict[str, Any] = (
        {"application/octet-stream": {}} if given is None else {"application/json": {"schema": given}}
    )
    operation: dict[str, Any] = {
        "summary": route.summary,
        "x-role": route.role,
        "parameters": list(_named(route.path)),
        "responses": {"200": {"description": "Done.", "content": content}, **_failures()},
    }
    if route.method == "POST":
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": taken}}}
    else:
        operation["parameters"] += _query(components[route.takes.__name__])
    return operation


def _stream(path: str, summary: str, names: Iterable[str]) -> dict[str, Any]:
    numbers = [_parameter(name, "query", {"type": "integer"}, is_required=False) for name in names]
    answer: dict[str, Any] = {"description": "Server-sent events.", "content": {"text/event-stream": {}}}
    return {
        "summary": summary,
        "x-role": "watch",
        "parameters": [*_named(path), *numbers],
        "responses": {"200": answer, **_failures()},
    }


def _failures() -> dict[str, Any]:
    return {code: {"description": text} for code, text in _ERRORS.items()}


def _named(path: str) -> Iterable[dict[str, Any]]:
    if "{session}" in path:
        yield _parameter("session", "path", {"type": "string"}, is_required=True)


def _query(schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = schema.get("required", ())
    return [
        _parameter(name, "query", kind, is_required=name in required)
        for name, kind in schema.get("properties", {}).items()
    ]


def _parameter(name: str, where: str, schema: dict[str, Any], *, is_required: bool) -> dict[str, Any]:
    return {"name": name, "in": where, "required": is_required, "schema": schema}


def _schema(kind: type) -> dict[str, Any]:
    if kind is Path:
        return {"type": "string"}
    if kind is msgspec.Raw:
        return {}
    raise NotImplementedError

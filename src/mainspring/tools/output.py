"""A type that a session answers with: its schema for the model, and the value from what the model wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from mainspring.errors import UsageError
from mainspring.patterns import lazy_pattern
from mainspring.tools.json_schema import check_schema, problem_with
from mainspring.tools.schema import convert_value, parameters_of

_FENCED = lazy_pattern(r"\A```[\w-]*[ \t]*\n(.*?)\n?```\Z", re.DOTALL)


class OutputType:
    """A msgspec struct, a dataclass, a TypedDict, a pydantic model, or a JSON schema itself as a dict."""

    def __init__(self, kind: Any) -> None:
        self._kind = None if isinstance(kind, dict) else kind
        self.schema = cast("dict[str, Any]", kind) if isinstance(kind, dict) else _schema(kind)
        check_schema(self.schema)

    def convert(self, text: str) -> Any:
        """The value that a text holds; raises `ValueError` with what is wrong."""
        value, problem = read_output(text, self.schema)
        if problem:
            raise ValueError(problem)
        return value if self._kind is None else convert_value(value, self._kind)


def read_output(text: str, schema: Mapping[str, Any]) -> tuple[Any, str]:
    """The JSON of a reply, and what about it does not fit the schema; empty when it fits."""
    stripped = text.strip()
    fenced = _FENCED.match(stripped)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else stripped)
    except (msgspec.DecodeError, RecursionError) as error:
        return None, f"it is not valid JSON ({error})"
    return value, problem_with(value, schema)


def _schema(kind: Any) -> dict[str, Any]:
    try:
        return parameters_of(kind)
    except (TypeError, ValueError, RecursionError) as error:
        name = kind.__name__ if isinstance(kind, type) else f"that is a {type(kind).__name__}"
        raise UsageError(
            f"The output type {name} has no JSON schema: {error}.",
            remedy="Use a struct, dataclass, TypedDict or pydantic model that is not recursive.",
        ) from error

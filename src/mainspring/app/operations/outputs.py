"""Structured answers for a face: the schema from a file, and the answer as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring.errors import UsageError
from mainspring.tools.output import OutputType


def load_schema(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"The schema {path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"The schema {path} is not valid: {error}.",
            remedy='Write a JSON schema: {"type": "object", "properties": {…}}.',
        ) from error


def as_output(text: str, output: OutputType) -> bytes:
    """The answer of a turn that is done, as one line of JSON."""
    return msgspec.json.encode(output.convert(text))

"""Structured answers for a face: the schema from a file, and the answer as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import UsageError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.tools.output import OutputType

_MAX_BYTES = 1 << 20


def load_schema(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(
            read_untrusted(path, max_bytes=_MAX_BYTES, root=Path()), type=dict[str, Any]
        )
    except OSError as error:
        raise UsageError(
            f"The schema {path} cannot be read: {error.strerror}.",
            remedy="Check the path after --output-schema.",
        ) from error
    except DECODE_ERRORS as error:
        raise UsageError(
            f"The schema {path} is not valid: {error}.",
            remedy='Write a JSON schema: {"type": "object", "properties": {…}}.',
        ) from error


def as_output(text: str, output: OutputType) -> bytes:
    """The answer of a turn that is done, as one line of JSON."""
    return msgspec.json.encode(output.convert(text))

"""Values as lines of JSON, safe to print."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.events.escaping import escape_json


def json_line(value: Any) -> str:
    """A value on one line; what is no JSON of its own, such as a path, as its text."""
    return escape_json(msgspec.json.encode(value, enc_hook=str)).decode()

"""How each provider refuses a request that is larger than its model takes (`overflows.json`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec


class OverflowRefusal(msgspec.Struct, frozen=True):
    status: int
    body: msgspec.Raw


@cache
def overflows() -> dict[str, OverflowRefusal]:
    """By provider: status and body as they were seen in the wild."""
    text = Path(__file__).with_name("overflows.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, OverflowRefusal])

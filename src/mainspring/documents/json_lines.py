"""Events as lines of JSON, for programs."""

from __future__ import annotations

import msgspec

from mainspring.documents.figures import when
from mainspring.events import Recorded, encode
from mainspring.events.escaping import escape_json


def as_json(recorded: Recorded) -> bytes:
    """One event as a line of JSON."""
    kind, body = encode(recorded.event)
    head = {"seq": recorded.seq, "time": when(recorded.time_us), "kind": kind}
    return escape_json(msgspec.json.encode({**head, "body": msgspec.Raw(body)}))

"""Finds out whose session file a file is, and reads it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from mainspring.engines.transcripts import Transcript, claude, codex
from mainspring.events.decoding import DECODE_ERRORS


def read_transcript(first: bytes, rest: Iterable[bytes], *, first_seq: int) -> Transcript | None:
    """The session in a file of another agent, or None when it is not one that is known."""
    try:
        opening = msgspec.json.decode(first, type=dict[str, Any])
    except DECODE_ERRORS:
        return None
    for format_ in (codex, claude):
        if format_.is_ours(opening):
            return format_.read(chain([first], rest), first_seq=first_seq)
    return None

"""A model on this machine, without a key or a server: llama.cpp in a process of ours.

These are the two lines that we and that process say to each other.
"""

from __future__ import annotations

import msgspec


class LocalSettings(msgspec.Struct, frozen=True):
    """What to load, and how; `key` is asked for with every request."""

    path: str
    key: str
    threads: int
    context_tokens: int
    temperature: float = 0.2


class LocalAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the server listens, or why there is none."""

    url: str = ""
    error: str = ""

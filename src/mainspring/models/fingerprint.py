"""A hash of what a request says: the prompt, every message in the bytes of its wire, and the schema of the
answer.

Limits and other settings that may change between equal requests are no part of it. Messages that the last
request had as well are not hashed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import is_
from typing import Any

import msgspec

from mainspring.events import PromptSet

_ENCODE = msgspec.json.Encoder(order="deterministic").encode


class Fingerprint:
    def __init__(self) -> None:
        self._prompt: PromptSet | None = None
        self._hashed: Sequence[bytes] = ()
        self._running = hashlib.sha256()

    def of(self, prompt: PromptSet, messages: Sequence[bytes], schema: dict[str, Any] | None = None) -> str:
        known = len(self._hashed)
        is_longer = len(messages) >= known and all(map(is_, self._hashed, messages))
        if not is_longer or prompt is not self._prompt:
            known = 0
            self._running = hashlib.sha256(_ENCODE(prompt))
        self._running.update(b"".join([b"%d:%b" % (len(message), message) for message in messages[known:]]))
        self._prompt, self._hashed = prompt, messages
        if schema is None:
            return self._running.hexdigest()
        whole = self._running.copy()
        whole.update(b"schema:" + _ENCODE(schema))
        return whole.hexdigest()

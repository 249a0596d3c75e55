"""What a model says, shown while it comes, without secrets: also one that arrives in several pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import msgspec

from mainspring.events import CallDelta, Delta, TextDelta, ThinkingDelta
from mainspring.secrets.vault import RedactingStream, Vault

_Streamed = TextDelta | ThinkingDelta | CallDelta


class RedactedDeltas:
    """Shows what it is given. What could still become a secret is shown with what comes next."""

    def __init__(self, vault: Vault, show: Callable[[Delta], None]) -> None:
        self._vault = vault
        self._show = show
        self._streams: dict[int, tuple[RedactingStream, _Streamed]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def feed(self, delta: _Streamed) -> None:
        index = delta.index if isinstance(delta, CallDelta) else 0
        if any(type(last) is not type(delta) for _, last in self._streams.values()):
            self.end()  # texts and thoughts follow each other; calls come side by side
        stream, _ = self._streams.get(index) or (self._vault.stream(), delta)
        self._streams[index] = stream, delta
        self._pass_on(delta, stream.feed(_text(delta)))

    def end(self) -> None:
        """Shows what is left."""
        for stream, delta in self._streams.values():
            if left := stream.end():
                self._pass_on(_without_extras(delta), left)
        self._streams.clear()

    def _pass_on(self, delta: _Streamed, text: str) -> None:
        if isinstance(delta, CallDelta):
            name = self._vault.redact(delta.name)
            changed = msgspec.structs.replace(delta, name=name, arguments=text)
            is_empty = not (text or name or delta.provider_id or delta.opaque)
        else:
            changed = msgspec.structs.replace(delta, text=text)
            is_empty = not (text or (isinstance(delta, ThinkingDelta) and delta.opaque))
        if not is_empty:
            self._show(changed)


def _text(delta: _Streamed) -> str:
    return delta.arguments if isinstance(delta, CallDelta) else delta.text


def _without_extras(delta: _Streamed) -> _Streamed:
    """The delta without what was shown with it once."""
    match delta:
        case TextDelta():
            return delta
        case ThinkingDelta():
            return ThinkingDelta(wire=delta.wire)
        case CallDelta():
            return CallDelta(index=delta.index)

"""Deltas that merge themselves into the parts of one assistant message, whatever the provider."""

from __future__ import annotations

import string

import msgspec

from mainspring.events import CallAsked, CallDelta, Part, Text, TextDelta, Thinking, ThinkingDelta

_DIGITS = string.digits + string.ascii_lowercase


def call_id(step: int, index: int) -> str:
    """The id of a call: unique in its session, and of a form that every provider accepts back."""
    return f"c{_base36(step, 5)}{_base36(index, 3)}"


class _Growing(msgspec.Struct):
    """A part whose text still comes in pieces."""

    kind: type[Text | Thinking | CallAsked]
    pieces: list[str]
    opaque: str = ""
    wire: str = ""
    name: str = ""
    provider_id: str = ""


class ReplyBuilder:
    """The message so far, of so many `characters`."""

    def __init__(self) -> None:
        self._parts: list[_Growing] = []
        self._calls: dict[int, _Growing] = {}
        self.characters = 0

    def clear(self) -> None:
        self._parts.clear()
        self._calls.clear()
        self.characters = 0

    def add(self, delta: TextDelta | ThinkingDelta | CallDelta) -> None:
        match delta:
            case TextDelta():
                self._grow(Text).pieces.append(delta.text)
                self.characters += len(delta.text)
            case ThinkingDelta():
                part = self._grow(Thinking)
                part.pieces.append(delta.text)
                part.opaque += delta.opaque
                part.wire = delta.wire or part.wire
                self.characters += len(delta.text)
            case CallDelta():
                self._add_call(delta)

    @property
    def text(self) -> str:
        """What was said so far, without thoughts and calls."""
        return "".join(piece for part in self._parts if part.kind is Text for piece in part.pieces)

    def parts(self, step: int) -> tuple[Part, ...]:
        """The parts in the order in which they began, empty texts left out."""
        index = 0
        parts: list[Part] = []
        for growing in self._parts:
            text = "".join(growing.pieces)
            if growing.kind is CallAsked:
                parts.append(
                    CallAsked(
                        call=call_id(step, index),
                        name=growing.name,
                        arguments=text,
                        provider_id=growing.provider_id,
                        opaque=growing.opaque,
                    )
                )
                index += 1
            elif growing.kind is Thinking:
                parts.append(Thinking(text=text, opaque=growing.opaque, wire=growing.wire))
            elif text:
                parts.append(Text(text=text))
        return tuple(parts)

    def _grow(self, kind: type[Text | Thinking]) -> _Growing:
        # What carries an opaque value is closed by it: the provider wants each such block back as it was.
        last = self._parts[-1] if self._parts else None
        if last is not None and last.kind is kind and not last.opaque:
            return last
        part = _Growing(kind=kind, pieces=[])
        self._parts.append(part)
        return part

    def _add_call(self, delta: CallDelta) -> None:
        part = self._calls.get(delta.index)
        if part is None:
            part = self._calls[delta.index] = _Growing(kind=CallAsked, pieces=[])
            self._parts.append(part)
        part.name += delta.name
        part.provider_id = delta.provider_id or part.provider_id
        part.opaque += delta.opaque
        part.pieces.append(delta.arguments)
        self.characters += len(delta.arguments) + len(delta.name)


def _base36(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits

"""How a scripted reply looks on each wire: one file per protocol, all behind `Dialect`."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from mainspring.events import Usage
from mainspring.models.scripted import ScriptedReply

Place = Literal["open", "thinking", "text", "call", "close"]


class Asked(msgspec.Struct, frozen=True):
    """What a request asks for; `replies` is how many replies of the model stand in it already."""

    replies: int
    model: str = ""
    is_stream: bool = True


class Frame(msgspec.Struct, frozen=True):
    """One server-sent event, and which part of the reply it belongs to."""

    place: Place
    data: bytes


class Role(msgspec.Struct):
    role: str = ""


class _Body(msgspec.Struct):
    messages: list[Role]
    model: str = ""
    stream: bool = False


_BODY = msgspec.json.Decoder(_Body)


class Dialect(Protocol):
    def asked(self, path: str, body: bytes, /) -> Asked:
        """Raises `msgspec.MsgspecError` when the body is not a request of this wire."""
        ...

    def frames(self, reply: ScriptedReply, usage: Usage, model: str) -> list[Frame]: ...

    def whole(self, reply: ScriptedReply, usage: Usage, model: str) -> bytes:
        """The reply to a request that does not want a stream."""
        ...

    def error(self, status: int) -> bytes:
        """The body that usually comes with this status."""
        ...

    def refusal(self, message: str) -> bytes:
        """The body that comes with 400 and this message."""
        ...

    def error_frame(self) -> bytes:
        """A failure that is told inside a stream."""
        ...


def pieces(text: str, size: int) -> list[str]:
    if size <= 0:
        return [text] if text else []
    return [text[start : start + size] for start in range(0, len(text), size)]


class WithMessages:
    """`Dialect.asked` for the wires whose requests have `messages` with roles."""

    def asked(self, _path: str, body: bytes, /) -> Asked:
        asked = _BODY.decode(body)
        replies = sum(message.role == "assistant" for message in asked.messages)
        return Asked(replies=replies, model=asked.model, is_stream=asked.stream)


def named_frame(place: Place, kind: str, **fields: Any) -> Frame:
    """An event of the wires that name their events."""
    data = msgspec.json.encode({"type": kind, **fields})
    return Frame(place, b"event: %b\ndata: %b\n\n" % (kind.encode(), data))

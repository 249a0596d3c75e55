"""What a scripted model server says: replies in order, and the faults that come before them.

A script is plain JSON. Unknown fields are refused, so a misspelt fault never passes as a good reply.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mainspring.events import Stop
from mainspring.models import scripted
from mainspring.models.scripted import ScriptedCall

FaultKind = Literal[
    "status",
    "overflow",
    "drop",
    "reset",
    "garbage",
    "malformed",
    "slow",
    "endless",
    "gzip",
    "whole",
    "error_in_stream",
]


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes wrong `times` times before the real reply is given.

    `status` answers with that status and the wire's usual error body (or `body` as it stands); `overflow` is
    the refusal of a request that is too large, in the words of `provider`; `drop` closes the connection `at`
    a point of the reply; `reset` breaks it without an answer; `slow` gives the real reply after `seconds`;
    `gzip` gives it compressed, `whole` as one JSON document although a stream was wanted.
    """

    kind: FaultKind
    times: int = 1
    status: int = 500
    body: dict[str, Any] | str | None = None
    headers: dict[str, str] = {}
    retry_after: str | int | float | None = None
    provider: str = ""
    at: Literal["start", "text", "call"] = "start"
    seconds: float = 0.0


class ScriptedReply(scripted.ScriptedReply, frozen=True, forbid_unknown_fields=True):
    """One reply. `chunk_size` is characters per delta; `slice_bytes` cuts the stream anywhere, also inside a
    character; `delay_s` is waited before each slice."""

    fault: Fault | None = None
    faults: tuple[Fault, ...] = ()
    chunk_size: int = 32
    slice_bytes: int = 0
    delay_s: float = 0.0

    @property
    def stop_reason(self) -> Stop:
        return self.stop or ("calls" if self.calls else "end")

    @property
    def all_faults(self) -> tuple[Fault, ...]:
        return (self.fault, *self.faults) if self.fault else self.faults


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said to requests with this text in them, such as one iteration of a goal."""

    contains: str
    replies: tuple[ScriptedReply, ...]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`faults` of the script come first, whatever is asked; those of a reply come before that reply. The
    first of the `cases` that fits a request takes the place of `replies`."""

    replies: tuple[ScriptedReply, ...] = ()
    faults: tuple[Fault, ...] = ()
    closing: ScriptedReply = ScriptedReply(text="The script is over.")
    models: tuple[str, ...] = ("scripted",)
    cases: tuple[Case, ...] = ()

    def reply(self, index: int, body: bytes = b"") -> ScriptedReply:
        replies = next((case.replies for case in self.cases if case.contains.encode() in body), self.replies)
        return replies[index] if index < len(replies) else self.closing


def parse_script(data: bytes | str) -> Script:
    """Raises `msgspec.MsgspecError` when it is not a script."""
    return msgspec.json.decode(data, type=Script)


def argument_text(call: ScriptedCall) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return msgspec.json.encode(call.arguments).decode()


def pieces(text: str, size: int) -> list[str]:
    if size <= 0:
        return [text] if text else []
    return [text[start : start + size] for start in range(0, len(text), size)]

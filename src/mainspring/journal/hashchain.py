"""The hash chain of a journal, and the stored form of its events, whatever keeps them.

Every hash covers the previous hash, seq, time, kind and stored body, so no event can be changed, dropped or
moved without breaking the chain. A body over `INLINE_BYTES` is stored as a blob, and the stored body is then
`@` with the blob's hash and size, which no JSON text can be.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from mainspring.events import STORED, Blob, Event, Unknown, encode

INLINE_BYTES = 16 * 1024
GENESIS = bytes(32)

_STORED = frozenset(STORED)
_STEP = struct.Struct(">32sqqI")


def chain(previous: bytes, seq: int, time_us: int, kind: str, stored: bytes) -> bytes:
    """The hash of an event. Fixed widths and the kind's length make the encoding unambiguous."""
    name = kind.encode()
    return hashlib.sha256(_STEP.pack(previous, seq, time_us, len(name)) + name + stored).digest()


def follows(previous: bytes, seq: Any, time_us: Any, kind: Any, stored: Any, hash_: Any) -> bool:
    """Whether a row, as it was read, is the one that was hashed; damage may have changed its types too."""
    try:
        return chain(previous, seq, time_us, kind, stored) == hash_
    except (TypeError, AttributeError, struct.error):
        return False


def reference(blob: Blob) -> bytes:
    """The stored body of an event whose body is this blob."""
    return f"@{blob.sha256}:{blob.size}".encode()


def stored_form(body: bytes, keep: Callable[[str, bytes], object]) -> bytes:
    """A body as it is stored; a long one is given to `keep` as a blob, with its hash."""
    if len(body) <= INLINE_BYTES:
        return body
    blob = Blob(sha256=hashlib.sha256(body).hexdigest(), size=len(body))
    keep(blob.sha256, body)
    return reference(blob)


def referenced(stored: bytes) -> Blob | None:
    """The blob that a stored body stands for, None when the body is inline; ValueError when it is neither."""
    if not stored.startswith(b"@"):
        return None
    sha256, _, size = stored[1:].decode("ascii").partition(":")
    if len(sha256) != 64:
        raise ValueError("a reference to a blob must carry its SHA-256")
    return Blob(sha256=bytes.fromhex(sha256).hex(), size=int(size), media_type="application/json")


def encoded(event: Event) -> tuple[str, bytes]:
    """The kind and the body of an event that a journal keeps; TypeError when it is none."""
    kind, body = encode(event)
    if isinstance(event, Unknown):
        kind.encode()  # a kind that is no text must fail here, not in the writer's thread
        return kind, msgspec.json.format(body, indent=-1)  # an export has one event per line
    if type(event) not in _STORED:
        raise TypeError(f"{kind} is not an event that a journal keeps")
    return kind, body

"""What each wire takes as an attachment, so that what it would refuse is left out before it is sent.

An image that is broken or too large would fail this request and every later one.
"""

from __future__ import annotations

import struct

import msgspec

from mainspring.models import Attachment

_MB = 1024 * 1024
_USUAL_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class MediaLimits(msgspec.Struct, frozen=True):
    """`image_bytes` and `document_bytes` are of the file, before base64 makes it a third larger. `side` is
    the longest side of an image in pixels, 0 when it is not bounded."""

    images: frozenset[str]
    image_bytes: int
    document_bytes: int
    side: int = 0


_OPENAI = MediaLimits(_USUAL_IMAGES, image_bytes=20 * _MB, document_bytes=32 * _MB)
LIMITS: dict[str, MediaLimits] = {
    # Its refusals: "image exceeds 5 MB maximum: ... bytes > 5242880 bytes" (of base64), "image dimensions
    # exceed max allowed size: 8000 pixels"; a request has 32 MB at most, base64 included.
    "anthropic": MediaLimits(_USUAL_IMAGES, image_bytes=5 * _MB * 3 // 4, document_bytes=22 * _MB, side=8000),
    # Its refusal: "make sure your image is below 20 MB in size and is of one the following formats: png,
    # jpeg, gif, webp". For documents it is our own bound: larger ones are refused by some compatible servers.
    "chat": _OPENAI,
    "responses": _OPENAI,
    # firebase.google.com/docs/ai-logic/input-file-requirements: a request has 20 MB, base64 included.
    "gemini": MediaLimits(
        _USUAL_IMAGES - {"image/gif"} | {"image/heic", "image/heif"},
        image_bytes=14 * _MB,
        document_bytes=14 * _MB,
    ),
}


def media_problem(attachment: Attachment, limits: MediaLimits) -> str:
    """Why an attachment cannot be sent; empty when it can."""
    kind, size = attachment.media_type, len(attachment.data)
    if kind == "application/pdf":
        if not attachment.data.startswith(b"%PDF"):
            return "it is not a PDF"
        return _too_large(size, limits.document_bytes)
    if not kind.startswith("image/"):
        return ""
    found = _type_of(attachment.data)
    if kind in _USUAL_IMAGES and not found:
        return "it is not an image, or only the beginning of one"
    if (found or kind) not in limits.images:
        return f"this model takes no {found or kind}"
    if (
        limits.side
        and found == "image/png"
        and max(struct.unpack(">II", attachment.data[16:24])) > limits.side
    ):
        return f"it is larger than {limits.side:,} pixels"
    return _too_large(size, limits.image_bytes)


def sendable(attachment: Attachment, limits: MediaLimits) -> Attachment:
    """The attachment as the wire takes it: with the type that it really has, or a line that says why not."""
    problem = media_problem(attachment, limits)
    if problem:
        return left_out(attachment.name, problem)
    found = _type_of(attachment.data) if attachment.media_type.startswith("image/") else ""
    return msgspec.structs.replace(attachment, media_type=found) if found else attachment


def left_out(name: str, reason: str) -> Attachment:
    """What stands in the place of an attachment, for the model to read."""
    return Attachment("text/plain", f"[{name or 'attachment'} is left out: {reason}]".encode())


def _too_large(size: int, most: int) -> str:
    return f"it has {size / _MB:.1f} MB, and this model takes {most / _MB:.1f}" if size > most else ""


def _type_of(data: bytes) -> str:
    """The type of a whole image, by its first and last bytes; empty when it is none."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png" if len(data) > 24 and b"IEND\xaeB`\x82" in data[-1024:] else ""
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg" if b"\xff\xd9" in data[-65536:] else ""
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif" if b";" in data[-16:] else ""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp" if len(data) >= int.from_bytes(data[4:8], "little") + 8 else ""
    return ""

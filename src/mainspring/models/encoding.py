"""What the wires share when they put messages into bytes: one encoder, arguments, attachments."""

from __future__ import annotations

from base64 import b64encode

import msgspec

from mainspring.models import Attachment

ENCODER = msgspec.json.Encoder(order="deterministic")
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_object(text: str) -> bool:
    """Whether a text is that of a JSON object."""
    try:
        _OBJECT.decode(text)
    except msgspec.MsgspecError:
        return False
    return True


def object_text(arguments: str) -> str:
    """Arguments as they may be sent back: what is not the text of a JSON object is put inside one."""
    if is_object(arguments):
        return arguments
    if not arguments.strip():
        return "{}"
    return ENCODER.encode({"malformed_arguments": arguments}).decode()


def base64_text(attachment: Attachment) -> str:
    return b64encode(attachment.data).decode()


def data_url(attachment: Attachment) -> str:
    return f"data:{attachment.media_type};base64,{base64_text(attachment)}"


def attached_text(attachment: Attachment) -> str:
    """An attachment that a wire can only take as text."""
    if attachment.media_type.startswith("text/"):
        return f"{attachment.name}\n{attachment.data.decode('utf-8', 'replace')}".lstrip()
    return f"[{attachment.name or 'attachment'}: {attachment.media_type} cannot be shown to this model]"

"""What the wires share when they put messages into bytes: one encoder, arguments, attachments, tools."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from mainspring.events import Part, Thinking, ToolSpec, tool_of
from mainspring.models import Attachment
from mainspring.patterns import lazy_pattern

ENCODER = msgspec.json.Encoder(order="deterministic")
NOTHING_SAID = "(nothing)"
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_MOST_NESTED = 64  # some servers read 100 levels, and a request has some around the arguments
_NUL = lazy_pattern(rb"(?<!\\)((?:\\\\)*)\\u0000")
# What all providers take; Gemini also refuses a digit or a dash in front.
_TAKEN_NAME = lazy_pattern(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_KEPT_OF_NAME = 48


def wire_name(name: str) -> str:
    """The name of a tool as every provider takes it, always the same for the same name. What had to be
    changed carries a hash of what was said, so two names stay two."""
    meant = tool_of(name)
    if _TAKEN_NAME.fullmatch(meant):
        return meant
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "_", meant)[:_KEPT_OF_NAME].strip("_")
    return f"_{plain}_{hashlib.sha256(meant.encode()).hexdigest()[:12]}"


def is_object(text: str) -> bool:
    """Whether a text is that of a JSON object that every server reads: numbers in range, not too deep."""
    try:
        level: list[Any] = [_OBJECT.decode(text)]
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    if text.count("{") + text.count("[") <= _MOST_NESTED:
        return True
    for _ in range(_MOST_NESTED):
        level = [each for value in level for each in _inside(value)]
    return not level


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def object_text(arguments: str) -> str:
    """Arguments as they may be sent back: what is not the text of a JSON object is put inside one."""
    if not arguments.strip():
        return "{}"
    text = arguments if is_object(arguments) else ENCODER.encode({"malformed_arguments": arguments}).decode()
    return without_nul(text.encode()).decode() if "u0000" in text else text


def object_raw(arguments: str) -> msgspec.Raw:
    """The same, for wires that want an object and not its text."""
    return msgspec.Raw(object_text(arguments).encode())


def without_nul(encoded: bytes) -> bytes:
    """JSON in whose texts another character stands in the place of NUL, which many servers refuse."""
    return _NUL.sub(rb"\1\\ufffd", encoded) if b"\\u0000" in encoded else encoded


def spoken(text: str, calls: Sequence[object]) -> str | None:
    """The text of a reply; without one there must be a call, or words in its place."""
    return text or (None if calls else NOTHING_SAID)


def without_last_thoughts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Parts up to the last that is not thinking: a thought that nothing follows is refused."""
    end = len(parts)
    while end and isinstance(parts[end - 1], Thinking):
        end -= 1
    return parts[:end]


def base64_text(attachment: Attachment) -> str:
    return b64encode(attachment.data).decode()


def data_url(attachment: Attachment) -> str:
    return f"data:{attachment.media_type};base64,{base64_text(attachment)}"


def attached_text(attachment: Attachment) -> str:
    """An attachment that a wire can only take as text."""
    if attachment.media_type.startswith("text/"):
        return f"{attachment.name}\n{attachment.data.decode('utf-8', 'replace')}".lstrip()
    return f"[{attachment.name or 'attachment'}: {attachment.media_type} cannot be shown to this model]"


def described_tools(tools: tuple[ToolSpec, ...]) -> str:
    """The tools in words, for a model that cannot be given them otherwise."""
    lines = [
        "You have tools. To use one, end your reply with a fenced block like this, and wait for its result:",
        '```json\n{"name": "<tool>", "arguments": {}}\n```',
        "The tools, with the JSON Schema of their arguments:",
    ]
    for tool in tools:
        schema = ENCODER.encode(tool.parameters).decode()
        lines.append(f"- {tool.name}: {tool.description}\n  {schema}")
    return "\n".join(lines)

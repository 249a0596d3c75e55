"""Text from elsewhere made safe: what could steer a terminal or deceive the eye is written or left out."""

from __future__ import annotations

import re

from mainspring.events.escaping import UNSAFE
from mainspring.patterns import lazy_pattern

_JOINER = 0x200D
_EMOJI = lazy_pattern("[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff]")
"""Between two of these a joiner makes one picture of them, and hides nothing."""
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TERMINAL_SEQUENCE = lazy_pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)


def without_controls(text: str) -> str:
    """The text for a journal and a model: without sequences that steer a terminal, every other control
    character but tab and newline written out. A carriage return ends a line."""
    if not _CONTROL.search(text):
        return text
    text = _TERMINAL_SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(_written, text)


def plain(text: str) -> str:
    """The text with every control character written out; line ends become `\\n`."""
    return UNSAFE.sub(_written, text.replace("\r\n", "\n"))


def plain_name(text: str) -> str:
    """The same for what must stay on one line, such as the name of a file."""
    return plain(text).replace("\n", "␊").replace("\t", "␉")


def _written(found: re.Match[str]) -> str:
    code, at = ord(found[0]), found.start()
    if code == _JOINER and _EMOJI.match(found.string[at - 1 : at]) and _EMOJI.match(found.string, at + 1):
        return found[0]
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"

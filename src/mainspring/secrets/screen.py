"""Text from elsewhere made safe to show: what could steer a terminal or deceive the eye becomes visible."""

from __future__ import annotations

import re

from mainspring.events.escaping import UNSAFE


def plain(text: str) -> str:
    """The text with every control character written out; line ends become `\\n`."""
    return UNSAFE.sub(_written, text.replace("\r\n", "\n"))


def plain_name(text: str) -> str:
    """The same for what must stay on one line, such as the name of a file."""
    return plain(text).replace("\n", "␊").replace("\t", "␉")


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"

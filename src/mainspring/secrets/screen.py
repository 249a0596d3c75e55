"""Text from elsewhere made safe to show: what could steer a terminal or deceive the eye becomes visible."""

from __future__ import annotations

import re

# Control characters but tab and newline, C1 controls, and the marks that reorder or hide text.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def plain(text: str) -> str:
    """The text with every control character written out; line ends become `\\n`."""
    return _UNSAFE.sub(_written, text.replace("\r\n", "\n"))


def plain_name(text: str) -> str:
    """The same for what must stay on one line, such as the name of a file."""
    return plain(text).replace("\n", "␊").replace("\t", "␉")


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"

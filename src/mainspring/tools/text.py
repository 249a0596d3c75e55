"""Bytes as text and back without loss: what is read with an encoding is written with the same one.

Lines end at line feeds alone, as editors and search tools count them.
"""

from __future__ import annotations

import codecs

import msgspec

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 8192
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))
_MAX_CONTROL_SHARE = 0.02


class Decoded(msgspec.Struct, frozen=True):
    """A text and what it takes to write it back."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding; raises `UnicodeEncodeError` when that cannot hold it."""
        return self.bom + text.encode(self.encoding)


def decode(data: bytes) -> Decoded | None:
    """The text in these bytes, or None when they are no text. Bytes that are not UTF-8 are read as Latin-1,
    which keeps every byte."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return Decoded(data[len(bom) :].decode(encoding), encoding, bom)
            except UnicodeDecodeError:
                break
    sample = data[:_SAMPLE]
    if b"\0" in sample:
        return None
    try:
        return Decoded(data.decode("utf-8"))
    except UnicodeDecodeError:
        control = len(sample) - len(sample.translate(None, _CONTROL))
        if control > len(sample) * _MAX_CONTROL_SHARE:
            return None
        return Decoded(data.decode("latin-1"), "latin-1")


def is_unicode(text: str) -> bool:
    """Whether a text is one: a name of a file that is not UTF-8 has bytes in it that are not."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


def lines_of(text: str) -> list[str]:
    """The lines without their ends; a last line feed does not begin another line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def is_crlf(text: str) -> bool:
    """Whether every line ends in CR LF."""
    return "\r\n" in text and text.count("\n") == text.count("\r\n")


def with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def with_crlf(text: str) -> str:
    return with_lf(text).replace("\n", "\r\n")

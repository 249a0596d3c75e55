"""A program of its own: draws the first pages of a PDF, read from its input, as PNG pictures.

It needs the extra `documents`, and runs confined (`app/operations/pdf_pages.py`), since a PDF is foreign
and its reader is C++. The output is a line with the number of pages, then for each page that is drawn a line
with a length and so many bytes.
"""

from __future__ import annotations

import struct
import sys
import zlib
from typing import Any

import pypdfium2

MAX_PAGES, MAX_BYTES = 12, 8_000_000
_WIDE_PX, _HIGH_PX = 1000, 1600


def main() -> None:
    out = sys.stdout.buffer
    document = pypdfium2.PdfDocument(sys.stdin.buffer.read())
    out.write(b"%d\n" % len(document))
    left = MAX_BYTES
    for number in range(min(len(document), MAX_PAGES)):
        picture = _drawn(document[number])
        left -= len(picture)
        if left < 0:
            break
        out.write(b"%d\n%s" % (len(picture), picture))
        out.flush()


def _drawn(page: Any) -> bytes:
    wide, high = page.get_size()
    scale = min(_WIDE_PX / max(wide, 1), _HIGH_PX / max(high, 1))
    bitmap = page.render(scale=scale, rev_byteorder=True, force_bitmap_format=pypdfium2.raw.FPDFBitmap_BGR)
    data, row = bytes(bitmap.buffer), bitmap.width * 3
    lines = (data[at : at + row] for at in range(0, bitmap.height * bitmap.stride, bitmap.stride))
    head = struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + line for line in lines), 6)
    chunks = ((b"IHDR", head), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


if __name__ == "__main__":
    main()

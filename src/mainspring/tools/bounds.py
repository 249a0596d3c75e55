"""Keeps what the model is sent small: the middle of a long text is left out, and the whole is kept as a blob
that `read` pages through by its name.
"""

from __future__ import annotations

import msgspec

from mainspring.tools import CallContext, Output

HANDLE = "blob:"
_MARK_ROOM = 200


async def bounded(output: Output, place: CallContext, *, limit: int) -> Output:
    if len(output.text) <= limit:
        return output
    output = msgspec.structs.replace(output, text=place.hide(output.text))
    full = output.full or await place.keep(output.text.encode(), "text/plain")
    half = max(limit - _MARK_ROOM, 0) // 2
    cut = len(output.text) - 2 * half
    mark = f"[… {cut:,} characters left out; the whole is {HANDLE}{full.sha256}, which read pages through …]"
    text = f"{output.text[:half]}\n{mark}\n{output.text[len(output.text) - half :]}"
    return msgspec.structs.replace(output, text=text, full=full)

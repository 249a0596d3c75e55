"""What a command printed is known when it has exited, whoever still holds its output."""

import asyncio
import os

import pytest

from mainspring.sandbox.streams import printed


async def said(data: bytes) -> list[bytes]:
    async with printed() as output:
        held = os.dup(output.theirs)
        try:
            os.write(output.theirs, data)
            await output.end()
            return [line.data async for line in output.lines()]
        finally:
            os.close(held)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\n", [b"one"]),
        (b"one", [b"one"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"one\n\n", [b"one", b""]),
        (b"\n\none\n", [b"", b"", b"one"]),
    ],
)
def test_the_lines_end_with_what_was_written_although_somebody_holds_the_pipe(data, lines):
    assert asyncio.run(asyncio.wait_for(said(data), 60)) == lines

"""Any command that reads a prompt on standard input and prints text: `exec:COMMAND`."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.engines.facts import EngineDescription
from mainspring.engines.messages import Item, Spoken


class PlainReader:
    def read(self, line: bytes) -> Iterator[Item]:
        yield Spoken(line.decode(errors="replace") + "\n", is_piece=True)


FACTS = EngineDescription(
    name="exec",
    title="a command",
    reader=PlainReader,
    has_version=False,
)

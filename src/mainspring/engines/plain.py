"""Any command that reads a prompt on standard input and prints text: `exec:COMMAND`."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.engines.facts import EngineDescription, EngineTask
from mainspring.engines.messages import Item, Spoken


class PlainReader:
    def read(self, line: bytes) -> Iterator[Item]:
        yield Spoken(line.decode(errors="replace") + "\n", is_piece=True)


def _nothing(task: EngineTask) -> tuple[str, ...]:
    del task
    return ()


FACTS = EngineDescription(
    name="exec",
    title="a command",
    arguments=_nothing,
    reader=PlainReader,
    has_version=False,
)

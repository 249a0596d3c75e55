"""The journal that generated sessions run on is held to the contract of the real one."""

import asyncio

import pytest

from mainspring.testing.journals import CHECKS
from mainspring.testing.memory import MemoryJournal

LEFT_OUT = {
    "a_second_writer_is_refused_until_the_first_closes": "one process, one object",
    "what_is_only_shown_is_refused": "it decodes what it encodes",
}


class Place:
    def __init__(self) -> None:
        self.journal = MemoryJournal()

    async def open(self) -> MemoryJournal:
        return self.journal

    async def read(self) -> MemoryJournal:
        return self.journal


@pytest.mark.parametrize(
    "check", [check for check in CHECKS if check.__name__ not in LEFT_OUT], ids=lambda check: check.__name__
)
def test_a_journal_in_memory(check):
    asyncio.run(check(Place()))

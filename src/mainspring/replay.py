"""Runs a journal again, offline: at each step, is what would be sent now what was sent then?

Replies and results are taken from the record, so nothing is asked and nothing is run. A difference means that
the projection, or the wire of the model, has changed since: any real session is a regression test.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from typing import Literal

import msgspec

from mainspring.context.history import REBUILDING, History, load_history
from mainspring.events import (
    AssistantSaid,
    Blob,
    ModelChosen,
    PromptSet,
    Recorded,
    SpendReserved,
)
from mainspring.journal import Reader, Verdict
from mainspring.models import Model
from mainspring.models.fingerprint import Fingerprint
from mainspring.state import STEP


class Request(msgspec.Struct, frozen=True):
    """A request of the record beside what would be sent now; `news` are the messages that the last one had
    not, in which a first difference lies."""

    seq: int
    spend: str
    model: str
    verdict: Literal["same", "different", "unknown"]
    messages: int
    news: tuple[bytes, ...] = ()


async def replay(journal: Reader, model_named: Callable[[str], Model]) -> AsyncGenerator[Request]:
    """Every request of the journal, in order. Requests that were recorded without a hash are unknown."""
    model: Model | None = None
    prompt = PromptSet(system="")
    history: History | None = None
    before: Sequence[bytes] = ()
    async for recorded in _events(journal):
        event = recorded.event
        match event:
            case PromptSet():
                prompt = event
            case ModelChosen():
                model = model_named(event.model)
                history = await load_history(Prefix(journal, recorded.seq), model.encode)
            case SpendReserved(source=source) if source == STEP and model and history:
                messages = await history.messages(journal.get)
                is_same = Fingerprint().of(prompt, messages) == event.request_sha256
                if not is_same and (heard := await _heard(journal, recorded.seq)):
                    # Something was said while the request was on its way.
                    history_then = await load_history(Prefix(journal, heard), model.encode)
                    messages = await history_then.messages(journal.get)
                    is_same = Fingerprint().of(prompt, messages) == event.request_sha256
                verdict = "unknown" if not event.request_sha256 else "same" if is_same else "different"
                news = tuple(messages[_shared(before, messages) :])
                yield Request(recorded.seq, event.spend, model.name, verdict, len(messages), news)
                before = messages
            case _ if isinstance(event, REBUILDING) and model:
                history = await load_history(Prefix(journal, recorded.seq), model.encode)
                continue
            case _:
                pass
        if history is not None:
            history.apply(recorded)


class Prefix:
    """A journal as it was after an event."""

    def __init__(self, journal: Reader, until: int) -> None:
        self._journal = journal
        self._until = until

    @property
    def session(self) -> str:
        return self._journal.session

    async def last_seq(self) -> int:
        return min(self._until, await self._journal.last_seq())

    async def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        until = self._until if until is None else min(until, self._until)
        return await self._journal.read(after=after, until=until, kinds=kinds, limit=limit)

    async def last(self, *kinds: str) -> Recorded | None:
        newest: Recorded | None = None
        after = 0
        while page := await self.read(after=after, kinds=kinds):
            newest, after = page[-1], page[-1].seq
        return newest

    async def get(self, blob: Blob) -> bytes:
        return await self._journal.get(blob)

    async def verify(self) -> Verdict:
        return await self._journal.verify()

    async def close(self) -> None:
        await self._journal.close()


async def _events(journal: Reader) -> AsyncGenerator[Recorded]:
    after = 0
    while page := await journal.read(after=after):
        for recorded in page:
            yield recorded
        after = page[-1].seq


async def _heard(journal: Reader, seq: int) -> int:
    """The last event that the reply to the request at `seq` had heard, when that was not all before it."""
    after = seq
    while page := await journal.read(after=after, limit=50):
        for recorded in page:
            if isinstance(recorded.event, AssistantSaid):
                return recorded.event.heard_seq
            if isinstance(recorded.event, SpendReserved):
                return 0
        after = page[-1].seq
    return 0


def _shared(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    count = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            break
        count += 1
    return count

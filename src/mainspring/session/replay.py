"""Runs a journal again, offline: at each step, is what would be sent now what was sent then?

Replies and results are taken from the record, so nothing is asked and nothing is run. A difference means that
the projection, or the wire of the model, has changed since: any real session is a regression test.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Literal

import msgspec

from mainspring.context.history import REBUILDING, History, load_history
from mainspring.events import (
    AssistantSaid,
    ModelChosen,
    PromptSet,
    SpendReserved,
    TurnStarted,
)
from mainspring.folds.state import STEP
from mainspring.journal import JournalReader, events_in
from mainspring.models import Model
from mainspring.models.fingerprint import Fingerprint


class ReplayedRequest(msgspec.Struct, frozen=True):
    """A request of the record beside what would be sent now; `news` are the messages that the last one had
    not, in which a first difference lies."""

    seq: int
    spend: str
    model: str
    verdict: Literal["same", "different", "unknown"]
    messages: int
    news: tuple[bytes, ...] = ()


async def replay(
    journal: JournalReader, model_named: Callable[[str], Model], *, schema: dict[str, Any] | None = None
) -> AsyncGenerator[ReplayedRequest]:
    """Every request of the journal, in order. Requests that were recorded without a hash are unknown. With a
    `schema`, turns with a structured answer would ask for that one now."""
    model: Model | None = None
    wanted: dict[str, Any] | None = None
    prompt = PromptSet(system="")
    history: History | None = None
    before: Sequence[bytes] = ()
    async for recorded in events_in(journal):
        event = recorded.event
        match event:
            case PromptSet():
                prompt = event
            case TurnStarted():
                wanted = event.output_schema and (schema or event.output_schema)
            case ModelChosen():
                model = model_named(event.model)
                history = await load_history(journal, model.encode, until=recorded.seq)
            case SpendReserved(source=source) if source == STEP and model and history:
                messages = await history.messages(journal.get)
                is_same = _is_same(event, prompt, messages, wanted)
                if not is_same and (heard := await _heard(journal, recorded.seq)):
                    # Something was said while the request was on its way.
                    history_then = await load_history(journal, model.encode, until=heard)
                    messages = await history_then.messages(journal.get)
                    is_same = _is_same(event, prompt, messages, wanted)
                verdict = "unknown" if not event.request_sha256 else "same" if is_same else "different"
                news = tuple(messages[_shared(before, messages) :])
                yield ReplayedRequest(recorded.seq, event.spend, model.name, verdict, len(messages), news)
                before = messages
            case _ if isinstance(event, REBUILDING) and model:
                history = await load_history(journal, model.encode, until=recorded.seq)
                continue
            case _:
                pass
        if history is not None:
            history.apply(recorded)


def _is_same(
    event: SpendReserved, prompt: PromptSet, messages: Sequence[bytes], schema: dict[str, Any] | None
) -> bool:
    """Whether the request had this hash, or the one of versions that left the schema out of it."""
    hashes = {Fingerprint().of(prompt, messages, each) for each in (schema, None)}
    return event.request_sha256 in hashes


async def _heard(journal: JournalReader, seq: int) -> int:
    """The last event that the reply to the request at `seq` had heard, when that was not all before it."""
    async for recorded in events_in(journal, after=seq, limit=50):
        if isinstance(recorded.event, AssistantSaid):
            return recorded.event.heard_seq
        if isinstance(recorded.event, SpendReserved):
            return 0
    return 0


def _shared(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    count = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            break
        count += 1
    return count

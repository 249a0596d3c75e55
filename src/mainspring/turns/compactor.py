"""Makes a long history short: reads the journal, asks a model what was decided, and gives one `Compacted`.

What must not be forgotten comes from the journal, word for word. A model for summaries that fails or is too
dear is replaced by the session's own; when that is down, the turn goes on with its next one first, as in any
step. One that twice leaves out what it must not is not asked again. Without a summary the oldest outputs go,
and steps; it never fails a turn.
"""

from __future__ import annotations

import msgspec

from mainspring.context.compaction import (
    INSTRUCTIONS,
    Cut,
    Outline,
    compose,
    cut,
    flaws,
    narrative_of,
    size_after,
    stub_huge,
    thin_out,
    transcript,
)
from mainspring.context.facts import KINDS, SessionFacts
from mainspring.context.history import is_live, live_compaction, read_all, undone_ranges
from mainspring.errors import ELSEWHERE, ModelError
from mainspring.events import Compacted, Recorded, Text
from mainspring.folds.ledger import Refusal
from mainspring.journal import JournalReader, events_in
from mainspring.models import Model, Request, UserMessage
from mainspring.turns.model_request import ask
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import reserve, settle

SOURCE = "compaction"
"""The source of money that was spent to make history short."""

_TRIES = 2
_KEPT = 0.2
_TARGET = 0.5
_SUMMARY = 0.15
_MATERIAL = 0.5
_LEAST_WINDOW = 2_000
_WORTH_IT = 0.95
_DEFAULT_MATERIAL_TOKENS = 60_000
_AGAIN = "\n\nYour last summary was not good enough: {flaws}. Write it again, with that in it."


class _Found(msgspec.Struct, frozen=True):
    """What a journal says, as far as it counts."""

    facts: SessionFacts
    outline: Outline
    events: list[Recorded]
    earlier: Compacted


_RESTART_CHARS = 6_000


class Compactor:
    """`model` writes summaries; without one the session's own does."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model

    async def __call__(self, runtime: Runtime, /, *, reason: str, until: int) -> Compacted | None:
        """What to record, or None when there is nothing to leave out."""
        found = await _read(runtime.journal, until)
        before = runtime.history.estimated_tokens(runtime.state.prompt_size)
        window = _window(runtime, before)
        per_token = runtime.history.bytes_per_token
        room = max(window - runtime.state.prompt_size / per_token, _LEAST_WINDOW)
        keep, target = int(room * _KEPT * per_token), int(room * _TARGET * per_token)
        chosen, narrative, writer = stub_huge(found.outline, target=target, keep=keep), "", ""
        if chosen is None:
            chosen = cut(found.outline, keep=keep)
            if chosen.keep_from_seq > found.outline.start:
                narrative, writer = await self._narrate(runtime, found, chosen, spend=f"{SOURCE}:{until}")
            if not narrative:
                chosen = thin_out(found.outline, target=target, keep=keep)
        if chosen.keep_from_seq > found.outline.start:
            limit = max(int(room * _SUMMARY * per_token), 2_000)
            told = narrative or narrative_of(found.earlier.summary)
            summary = compose(found.facts, told, keep_from_seq=chosen.keep_from_seq, limit=limit)
        else:
            summary = found.earlier.summary
            chosen = msgspec.structs.replace(
                chosen, stubbed=tuple(sorted({*found.earlier.stubbed, *chosen.stubbed}))
            )
        size = len(summary) + size_after(found.outline, chosen)
        if size >= _WORTH_IT * (len(found.earlier.summary) + found.outline.size):
            return None
        return Compacted(
            summary=summary,
            keep_from_seq=chosen.keep_from_seq,
            model=writer,
            stubbed=chosen.stubbed,
            reason=reason,
            tokens_before=before,
            tokens_after=int((runtime.state.prompt_size + size) / per_token),
        )

    async def _narrate(self, runtime: Runtime, found: _Found, chosen: Cut, *, spend: str) -> tuple[str, str]:
        """What a model tells of the part that is left out, and its name; empty when none tells it well."""
        is_other = self._model is not None and self._model.name != runtime.models.current.name
        writers = (
            (self._model, runtime.models.current) if self._model and is_other else (runtime.models.current,)
        )
        old = [item for item in found.events if item.seq < chosen.keep_from_seq]
        for place, model in enumerate(writers):
            told = await _told_by(runtime, model, found, old, spend=spend, first=place * _TRIES + 1)
            if told is not None:
                return told, model.name if told else ""
        return "", ""


async def restarted(runtime: Runtime) -> Compacted:
    """A history that begins anew: what was asked for and what is known from the journal, nothing else."""
    found = await _read(runtime.journal, runtime.last_seq)
    before = runtime.history.estimated_tokens(runtime.state.prompt_size)
    seq = runtime.last_seq + 1
    summary = compose(
        found.facts, narrative_of(found.earlier.summary), keep_from_seq=seq, limit=_RESTART_CHARS
    )
    tokens = int((runtime.state.prompt_size + len(summary)) / runtime.history.bytes_per_token)
    return Compacted(
        summary=summary, keep_from_seq=seq, reason="stuck", tokens_before=before, tokens_after=tokens
    )


async def _told_by(
    runtime: Runtime, model: Model, found: _Found, old: list[Recorded], *, spend: str, first: int
) -> str | None:
    """What one model tells, empty when it does not tell it well; None when it cannot be had or paid. `first`
    numbers its requests."""
    tokens = int(model.context_tokens * _MATERIAL) if model.context_tokens else _DEFAULT_MATERIAL_TOKENS
    limit = int(tokens * runtime.history.bytes_per_token)
    material = transcript(old, found.earlier.summary, limit=limit)
    still_open = "".join(f"\nStill open: {name}: {what}" for name, what in found.facts.open.items())
    text = f"{material}{still_open}\n\n[end of the session; now write the summary]"
    complaint = ""
    for number in range(first, first + _TRIES):
        told = await _ask(runtime, model, text + complaint, spend=f"{spend}:{number}")
        if told is None:
            return None
        lacking = flaws(told, found.facts)
        if not lacking:
            return told
        complaint = _AGAIN.format(flaws="; ".join(lacking))
    return ""


async def _ask(runtime: Runtime, model: Model, text: str, *, spend: str) -> str | None:
    """The model's answer, empty when it was cut off; None when it cannot be had or paid."""
    message = model.encode(UserMessage(text=text))
    input_tokens = int((len(message) + len(INSTRUCTIONS)) / runtime.history.bytes_per_token)
    reservation = await reserve(runtime, source=SOURCE, input_tokens=input_tokens, spend=spend, model=model)
    if isinstance(reservation, Refusal):
        return None
    request = Request(
        system=INSTRUCTIONS,
        tools=(),
        messages=[message],
        max_output_tokens=reservation.reserved.tokens - input_tokens,
    )
    try:
        reply, finished = await ask(runtime, model, request, reservation, input_tokens=input_tokens)
    except ModelError as error:
        if isinstance(error, ELSEWHERE) and model is runtime.models.current and _has_another(runtime):
            raise  # another model goes on with the turn, and makes the history short
        return None  # on record, and history can be made short by another model, or without one
    await settle(runtime, reservation, finished.usage)
    told = "".join(part.text for part in reply.parts(0) if isinstance(part, Text))
    return told if finished.stop == "end" else ""


def _has_another(runtime: Runtime) -> bool:
    """Whether a turn is open that a model can go on with that has not failed."""
    state = runtime.state
    return state.is_turn_open and any(name not in state.failed_models for name in state.fallbacks)


async def _read(journal: JournalReader, until: int) -> _Found:
    dead = undone_ranges(await read_all(journal, kinds=("Undone",), until=until))
    earlier = await live_compaction(journal, dead, until=until) or Compacted(summary="", keep_from_seq=1)
    facts, outline = SessionFacts(), Outline(earlier.keep_from_seq, earlier.stubbed)
    events: list[Recorded] = []
    async for recorded in events_in(journal, until=until, kinds=KINDS, limit=5000):
        if not is_live(recorded.seq, dead):
            continue
        facts.apply(recorded)
        outline.apply(recorded)
        if recorded.seq >= earlier.keep_from_seq:
            events.append(recorded)
    return _Found(facts, outline, events, earlier)


def _window(runtime: Runtime, tokens: int) -> int:
    """How much the model takes. What it refused was too much for it, whatever it is said to take."""
    known = runtime.models.current.context_tokens or tokens
    return min(known, tokens) if runtime.state.is_overflowing else known

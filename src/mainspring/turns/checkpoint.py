"""Folds of a journal, kept in a file beside it, so that a long session opens without reading all of it.

The file is a cache: whoever deletes it loses time only. It counts for the very code that wrote it, for the
journal whose chain has the same hash at the same event, and for the wire that its messages are encoded for;
anything else, and any damage, is as if it were not there. It holds what the journal holds, so no secrets.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from functools import cache
from pathlib import Path

import msgspec

from mainspring.context.history import REBUILDING, History, Projection
from mainspring.context.history_record import HistoryRecord, history_record, restored_history
from mainspring.disk.files import write_private
from mainspring.disk.log import log
from mainspring.errors import JournalError
from mainspring.events import CallAsked, Recorded, Text, Thinking
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.folds.state import State
from mainspring.folds.state_record import StateRecord, record_of, restored_state
from mainspring.journal import JournalReader, events_in
from mainspring.models import AssistantMessage, Message, Model, ResultsMessage, ToolResult, UserMessage
from mainspring.secrets.vault import Vault
from mainspring.version import installed_version

_LONGEST_TAIL = 25_000
_FOLDING = ("approvals", "context", "events", "folds", "secrets", "turns")
_ENCODING = ("models", "models/local", "models/wires")
_DIGEST_BYTES = 32
_WIRES = ("", "anthropic", "chat", "gemini", "responses")
_SAMPLES: tuple[Message, ...] = (
    UserMessage(text="a"),
    *(AssistantMessage((Thinking(text="b", opaque="c", wire=wire), Text(text="d"))) for wire in _WIRES),
    AssistantMessage((CallAsked(call="e", name="f", arguments='{"g":1}', opaque="h"),)),
    ResultsMessage((ToolResult("e", "f", "i", is_error=False), ToolResult("j", "f", "k", is_error=True))),
)


class _Kept(msgspec.Struct, frozen=True):
    """`head` is the hash of the chain at the event `seq`; `wire` tells how messages are encoded."""

    code: str
    session: str
    seq: int
    head: str
    wire: str
    state: StateRecord
    history: HistoryRecord | None


class RestoredFolds(msgspec.Struct, frozen=True):
    """The folds of a journal. The history is None when it must be projected anew; `kept_seq` is up to which
    event nothing had to be read."""

    state: State
    history: History | None
    kept_seq: int


async def load_checkpoint(
    path: Path, journal: JournalReader, vault: Vault, model: Model, *, until: int
) -> RestoredFolds | None:
    """The folds of a journal up to an event, of which only the newest are read. None when no file counts."""
    kept = await asyncio.to_thread(_read, path)
    if kept is None or (kept.code, kept.session) != (code_version(), journal.session):
        return None
    if not 0 <= until - kept.seq <= _LONGEST_TAIL or await journal.chain_hash(kept.seq) != kept.head:
        return None
    state, history = restored_state(kept.state, vault), None
    if kept.history is not None and kept.wire == wire_version(model):
        history = restored_history(kept.history, model.encode)
    async for recorded in events_in(journal, after=kept.seq, until=until, limit=5000):
        state.apply(recorded)
        history = _after(history, recorded)
    return RestoredFolds(state, history, kept.seq)


async def keep_checkpoint(
    path: Path,
    journal: JournalReader,
    vault: Vault,
    model: Model,
    *,
    seq: int,
    state: State,
    projection: Projection,
) -> None:
    """Keeps the folds as they are now, after an event. A state that would not come back as it is stays
    unkept, and so does a history that is about to be projected anew."""
    encode = msgspec.msgpack.encode  # not sorted: that a map has something first says that it came first
    record = msgspec.msgpack.decode(encode(record_of(state, vault)), type=StateRecord)
    if encode(record_of(restored_state(record, vault), None)) != encode(record_of(state, None)):
        return
    kept = _Kept(
        code=code_version(),
        session=journal.session,
        seq=seq,
        head="",
        wire=wire_version(model),
        state=record,
        history=None if projection.is_stale else history_record(projection.history),
    )
    try:
        head = await journal.chain_hash(seq)
        if kept.code and head:
            await asyncio.to_thread(_write, path, msgspec.structs.replace(kept, head=head))
    except (OSError, JournalError) as error:  # the session is as sound without it; the log says why
        log("checkpoint not written", session=journal.session, error=str(error))


@cache
def code_version() -> str:
    """Another one for any other code that folds or encodes; empty when the code does not lie in files."""
    digest = hashlib.sha256(installed_version().encode())
    root = Path(__file__).parent.parent
    try:
        for room in (*_FOLDING, *_ENCODING):
            for entry in sorted(os.scandir(root / room), key=lambda entry: entry.name):
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    digest.update(f"{room}/{entry.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    except OSError:
        return ""
    return digest.hexdigest()


def wire_version(model: Model) -> str:
    """Another one for a model that writes messages in another way."""
    digest = hashlib.sha256(model.name.encode())
    for message in _SAMPLES:
        digest.update(model.encode(message) + b"\n")
    return digest.hexdigest()


def _after(history: History | None, recorded: Recorded) -> History | None:
    if history is None or isinstance(recorded.event, REBUILDING):
        return None
    history.apply(recorded)
    return history


def _read(path: Path) -> _Kept | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    payload = memoryview(data)[_DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != data[:_DIGEST_BYTES]:
        return None
    try:
        return msgspec.msgpack.decode(payload, type=_Kept)
    except DECODE_ERRORS:
        return None


def _write(path: Path, kept: _Kept) -> None:
    payload = msgspec.msgpack.encode(kept)
    write_private(path, hashlib.sha256(payload).digest() + payload)

"""Projects a journal into the messages of a request, each encoded once.

Promises: every call is followed, directly after its message, by exactly one result; what a person said
meanwhile comes after the reply and its results; the same journal always gives the same bytes. `apply` takes
each event once, in order, so a step costs only what is new. Compaction and undo start a new projection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal

import msgspec

from mainspring.events import (
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    Compacted,
    Media,
    NoteAdded,
    Recorded,
    Text,
    Undone,
    UserSaid,
)
from mainspring.journal import Reader
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Message,
    Result,
    ResultsMessage,
    UserMessage,
)
from mainspring.models.fingerprint import Fingerprint

KINDS = frozenset({"UserSaid", "NoteAdded", "AssistantSaid", "CallEnded"})
REBUILDING = (Compacted, Undone)
"""Events after which a history is projected anew."""

_BYTES_PER_TOKEN = 3.6
_UNSEEN = (
    "This call had started when the session was interrupted. Its outcome is unknown:"
    " look at what it did before you repeat it."
)


class _Waiting(msgspec.Struct, frozen=True):
    """A message whose attachments are still in the journal."""

    message: UserMessage | ResultsMessage
    media: tuple[tuple[Media, ...], ...]


class _Said(msgspec.Struct, frozen=True):
    seq: int
    said: UserSaid | NoteAdded


class History:
    """The messages so far. `is_answered` says that the model has had the last word."""

    def __init__(self, encode: Callable[[Message], bytes]) -> None:
        self._encode = encode
        self._messages: list[bytes] = []
        self._waiting: dict[int, _Waiting] = {}
        self._asked: tuple[CallAsked, ...] = ()
        self._ended: dict[str, CallEnded] = {}
        self._deferred: list[_Said] = []
        self._newest: list[_Said] = []
        self._bytes = 0
        self._sent_bytes = 0
        self._measured: tuple[int, int] | None = None
        self.last_seq = 0
        self.is_answered = True
        self.fingerprint = Fingerprint()

    def apply(self, recorded: Recorded) -> None:
        self.last_seq = recorded.seq
        match recorded.event:
            case UserSaid() | NoteAdded() as said:
                self._add_said(_Said(seq=recorded.seq, said=said))
            case AssistantSaid() as said:
                self._add_reply(said)
            case CallEnded() as ended:
                self._add_result(ended)
            case _:
                pass

    def begin_with(self, summary: str) -> None:
        self._append(UserMessage(text=summary), ())

    async def messages(self, get: Callable[[Blob], Awaitable[bytes]]) -> Sequence[bytes]:
        """The encoded messages; those with attachments fetch them now, once."""
        while self._waiting:
            index, message = next(iter(self._waiting.items()))
            encoded = self._encode(await _attach(message, get))
            self._messages[index] = encoded
            self._bytes += len(encoded)
            del self._waiting[index]
        self._sent_bytes = self._bytes
        return self._messages.copy()

    def estimated_tokens(self, *head: str) -> int:
        """What the next request weighs: the provider's own count of the last one, plus what is new since."""
        if self._measured is None:
            return int((self._bytes + sum(map(len, head))) / _BYTES_PER_TOKEN) + 16
        tokens, measured_bytes = self._measured
        return tokens + int(max(self._bytes - measured_bytes, 0) / _BYTES_PER_TOKEN) + 16

    def measured(self, input_tokens: int) -> None:
        """Notes what the provider counted for the messages that were last given out."""
        if input_tokens > 0:
            self._measured = (input_tokens, self._sent_bytes)

    def _add_said(self, item: _Said) -> None:
        if self._asked:
            self._deferred.append(item)
            return
        self._newest.append(item)
        said = item.said
        if isinstance(said, UserSaid):
            self._append(UserMessage(text=said.text), (said.media,))
            self.is_answered = False
        else:
            self._append(UserMessage(text=f"[note from {said.source}] {said.text}"), ())
            self.is_answered = self.is_answered and said.source == "user"

    def _add_reply(self, said: AssistantSaid) -> None:
        self._close_unseen()
        unheard = self._take_back(said.heard_seq) if said.heard_seq else []
        self._newest = []
        calls = said.calls
        self.is_answered = not calls
        if calls or any(isinstance(part, Text) for part in said.parts):
            self._append(AssistantMessage(parts=said.parts), ())
            self._asked = calls
        for item in unheard:
            self._add_said(item)

    def _take_back(self, heard_seq: int) -> list[_Said]:
        """Takes what came too late for a request off the end of the messages."""
        unheard = [item for item in self._newest if item.seq > heard_seq]
        for _ in unheard:
            self._bytes -= len(self._messages.pop())
            self._waiting.pop(len(self._messages), None)
        return unheard

    def _add_result(self, ended: CallEnded) -> None:
        self._ended.setdefault(ended.call, ended)
        if self._asked and all(asked.call in self._ended for asked in self._asked):
            self._flush()

    def _close_unseen(self) -> None:
        """A reply after open calls can only come from a damaged or foreign journal; keep it valid."""
        for asked in self._asked:
            self._ended.setdefault(asked.call, CallEnded(call=asked.call, outcome="unknown", output=_UNSEEN))
        if self._asked:
            self._flush()

    def _flush(self) -> None:
        ended = [self._ended[asked.call] for asked in self._asked]
        results = tuple(
            Result(call=asked.call, name=asked.name, text=end.output, is_error=end.is_error)
            for asked, end in zip(self._asked, ended, strict=True)
        )
        self._append(ResultsMessage(results=results), tuple(end.media for end in ended))
        self._asked, self._ended = (), {}
        self.is_answered = False
        deferred, self._deferred, self._newest = self._deferred, [], []
        for item in deferred:
            self._add_said(item)

    def _append(self, message: Message, media: tuple[tuple[Media, ...], ...]) -> None:
        if any(media) and not isinstance(message, AssistantMessage):
            self._waiting[len(self._messages)] = _Waiting(message=message, media=media)
            self._messages.append(b"")
            return
        encoded = self._encode(message)
        self._messages.append(encoded)
        self._bytes += len(encoded)


async def load_history(journal: Reader, encode: Callable[[Message], bytes]) -> History:
    """The history of a journal, reading only what it still needs."""
    dead = undone_ranges(await read_all(journal, kinds=("Undone",)))
    history = History(encode)
    start = 0
    for recorded in reversed(await read_all(journal, kinds=("Compacted",))):
        if isinstance(recorded.event, Compacted) and not is_undone(recorded.seq, dead):
            history.begin_with(recorded.event.summary)
            start = recorded.event.keep_from_seq - 1
            break
    after = start
    while page := await journal.read(after=after, kinds=KINDS, limit=5000):
        for recorded in page:
            if not (dead and is_undone(recorded.seq, dead)):
                history.apply(recorded)
        after = page[-1].seq
    return history


async def read_all(journal: Reader, *, kinds: tuple[str, ...], after: int = 0) -> list[Recorded]:
    """Every event of these kinds; for kinds of which a journal has few."""
    found: list[Recorded] = []
    while page := await journal.read(after=found[-1].seq if found else after, kinds=kinds, limit=5000):
        found += page
    return found


def undone_ranges(
    undone: Iterable[Recorded], scope: Literal["conversation", "files"] = "conversation"
) -> list[tuple[int, int]]:
    """The stretches (after, until] that no longer count, as said or as done to files. An undo that was itself
    undone does not count."""
    ranges: list[tuple[int, int]] = []
    for recorded in sorted(undone, key=lambda item: -item.seq):
        event = recorded.event
        if (
            isinstance(event, Undone)
            and event.scope in (scope, "both")
            and not is_undone(recorded.seq, ranges)
        ):
            ranges.append((event.to_seq, recorded.seq))
    return ranges


def is_undone(seq: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(after < seq <= until for after, until in ranges)


async def _attach(waiting: _Waiting, get: Callable[[Blob], Awaitable[bytes]]) -> Message:
    fetched = [tuple([await _fetch(item, get) for item in media]) for media in waiting.media]
    message = waiting.message
    if isinstance(message, UserMessage):
        return UserMessage(text=message.text, attachments=fetched[0])
    return ResultsMessage(
        results=tuple(
            msgspec.structs.replace(result, attachments=attachments)
            for result, attachments in zip(message.results, fetched, strict=True)
        )
    )


async def _fetch(media: Media, get: Callable[[Blob], Awaitable[bytes]]) -> Attachment:
    return Attachment(media_type=media.blob.media_type, data=await get(media.blob), name=media.name)

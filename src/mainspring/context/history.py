"""Projects a journal into the messages of a request, each encoded once.

Promises: every call is followed, directly after its message, by exactly one result; what a person said
meanwhile comes after the reply and its results; the same journal always gives the same bytes. `apply` takes
each event once, in order, so a step costs only what is new. Compaction and undo start a new projection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Literal

import msgspec

from mainspring.context.facts import FRESH
from mainspring.context.media import HistoryMedia, WaitingMessage
from mainspring.context.stubs import seq_of, stub, text_of
from mainspring.errors import UsageError
from mainspring.events import (
    RESUMED_SOURCE,
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    Compacted,
    GuardTripped,
    Media,
    MediaLeftOut,
    NoteAdded,
    Recorded,
    Text,
    Undone,
    UserSaid,
)
from mainspring.journal import JournalReader, events_in
from mainspring.models import (
    AssistantMessage,
    Message,
    ResultsMessage,
    ToolResult,
    UserMessage,
)
from mainspring.models.fingerprint import Fingerprint

KINDS = frozenset({"UserSaid", "NoteAdded", "AssistantSaid", "CallEnded", "GuardTripped", "MediaLeftOut"})
REBUILDING = (Compacted, Undone)
"""Events after which a history is projected anew."""

BYTES_PER_TOKEN = 3.6
"""How dense text usually is, until a provider has counted some."""

_LEAST, _MOST = 1.5, 8.0
_MOST_UNSEEN_TOKENS = 50_000
"""What a provider may add to a request unseen: instructions of its own, pictures, pages that it read."""
_LOOKED_BACK = 1000
_BYTES_PER_ATTACHMENT = 6_000
_UNSEEN = (
    "This call had started when the session was interrupted. Its outcome is unknown:"
    " look at what it did before you repeat it."
)


def estimated_tokens(size: int) -> int:
    """What so many bytes of a request weigh, before any provider has counted them."""
    return int(size / BYTES_PER_TOKEN) + 16


class SaidItem(msgspec.Struct, frozen=True):
    seq: int
    said: UserSaid | NoteAdded


class History:
    """The messages so far. `is_answered` says that the model has had the last word."""

    def __init__(self, encode: Callable[[Message], bytes], stubbed: Collection[int] = ()) -> None:
        self._encode = encode
        self._stubbed = stubbed
        self._messages: list[bytes] = []
        self.media = HistoryMedia()
        self._counted: set[int] = set()
        self._first_unanswered = 0
        self._asked: tuple[CallAsked, ...] = ()
        self._open: set[str] = set()
        self._ended: dict[str, CallEnded] = {}
        self._deferred: list[SaidItem] = []
        self._newest: list[SaidItem] = []
        self._bytes = 0
        self._sent_bytes = 0
        self._measured: tuple[int, int] | None = None
        self.bytes_per_token = BYTES_PER_TOKEN
        self.last_seq = 0
        self.is_answered = True
        self.fingerprint = Fingerprint()

    def apply(self, recorded: Recorded) -> None:
        self.last_seq = recorded.seq
        if recorded.seq in self._stubbed:
            recorded = stub(recorded)
        match recorded.event:
            case CallEnded() as ended:
                self._add_result(ended)
            case AssistantSaid() as said:
                self._add_reply(said)
            case UserSaid() | NoteAdded() as said:
                self._add_said(SaidItem(seq=recorded.seq, said=said))
            case MediaLeftOut() as event:
                self.media.leave_out(event)
            case Undone():
                # What was taken back may have been the results of calls that still stand.
                self._close_unseen()
            case GuardTripped(is_final=False, message=message):
                note = NoteAdded(text=message, source="mainspring")
                self._add_said(SaidItem(seq=recorded.seq, said=note))
            case _:
                pass

    def begin_with(self, summary: str) -> None:
        self._append(UserMessage(text=summary), ())

    async def messages(self, get: Callable[[Blob], Awaitable[bytes]]) -> Sequence[bytes]:
        """The encoded messages; those with attachments fetch them now, once."""
        waiting = self.media.waiting
        while waiting:
            index, message = next(iter(waiting.items()))
            self._messages[index] = self._encode(await self.media.attach(message, get))
            if index not in self._counted:
                # Providers count images and documents by what they show, not by their bytes.
                count = sum(map(len, message.media))
                self._bytes += len(self._encode(message.message)) + count * _BYTES_PER_ATTACHMENT
                self._counted.add(index)
            waiting.pop(index, None)
        self._sent_bytes = self._bytes
        return self._messages.copy()

    def estimated_tokens(self, prompt_size: int) -> int:
        """What the next request weighs: the provider's own count of the last one, plus what is new since.
        `prompt_size` is how many characters the system prompt and the tools have."""
        if self._measured is None:
            return int((self._bytes + prompt_size) / self.bytes_per_token) + 16
        tokens, measured_bytes = self._measured
        return tokens + int(max(self._bytes - measured_bytes, 0) / self.bytes_per_token) + 16

    @property
    def suspects(self) -> list[Media]:
        """The attachments that a provider may have refused: those since the last reply, else all."""
        return self.new_media or self.media.since(0)

    @property
    def new_media(self) -> list[Media]:
        """The attachments since the last reply: no request with them has succeeded."""
        return self.media.since(self._first_unanswered)

    def measured(self, input_tokens: int, prompt_size: int) -> None:
        """Notes what the provider counted for the messages that were last given out, and learns from it how
        it counts. A count that what was sent cannot come to is not believed: every later request would look
        too large."""
        if 0 < input_tokens <= (self._sent_bytes + prompt_size) + _MOST_UNSEEN_TOKENS:
            self._measured = (input_tokens, self._sent_bytes)
            self.bytes_per_token = min(max((self._sent_bytes + prompt_size) / input_tokens, _LEAST), _MOST)

    def learn_from(self, earlier: History) -> None:
        """Takes over how the provider counts from a history of the same session."""
        self.bytes_per_token = earlier.bytes_per_token

    def _add_said(self, item: SaidItem) -> None:
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
            self.is_answered = self.is_answered and said.source in ("user", RESUMED_SOURCE)

    def _add_reply(self, said: AssistantSaid) -> None:
        self._close_unseen()
        unheard = self._take_back(said.heard_seq) if said.heard_seq else []
        self._newest = []
        calls = said.calls
        self.is_answered = not calls
        if calls or any(isinstance(part, Text) for part in said.parts):
            self._append(AssistantMessage(said.parts), ())
            self._first_unanswered = len(self._messages)
            self._asked = calls
            self._open = {asked.call for asked in calls} - self._ended.keys()
        for item in unheard:
            self._add_said(item)

    def _take_back(self, heard_seq: int) -> list[SaidItem]:
        """Takes what came too late for a request off the end of the messages."""
        unheard = [item for item in self._newest if item.seq > heard_seq]
        for _ in unheard:
            self._bytes -= len(self._messages.pop())
            self.media.drop(len(self._messages))
            self._counted.discard(len(self._messages))
        return unheard

    def _add_result(self, ended: CallEnded) -> None:
        self._ended.setdefault(ended.call, ended)
        self._open.discard(ended.call)
        if self._asked and not self._open:
            self._flush()

    def _close_unseen(self) -> None:
        """Closes calls whose results were taken back, or that a damaged or foreign journal left open."""
        for asked in self._asked:
            self._ended.setdefault(asked.call, CallEnded(call=asked.call, outcome="unknown", output=_UNSEEN))
        if self._asked:
            self._flush()

    def _flush(self) -> None:
        results: list[ToolResult] = []
        media: list[tuple[Media, ...]] = []
        for asked in self._asked:
            end = self._ended[asked.call]
            results.append(ToolResult(asked.call, asked.name, end.output, is_error=end.is_error))
            media.append(end.media)
        self._append(ResultsMessage(tuple(results)), tuple(media))
        self._asked, self._ended = (), {}
        self.is_answered = False
        deferred, self._deferred, self._newest = self._deferred, [], []
        for item in deferred:
            self._add_said(item)

    def _append(self, message: Message, media: tuple[tuple[Media, ...], ...]) -> None:
        if any(media) and not isinstance(message, AssistantMessage):
            self.media.add(len(self._messages), WaitingMessage(message=message, media=media))
            self._messages.append(b"")
            return
        encoded = self._encode(message)
        self._messages.append(encoded)
        self._bytes += len(encoded)


async def load_history(
    journal: JournalReader, encode: Callable[[Message], bytes], *, until: int | None = None
) -> History:
    """The history of a journal (up to an event), reading only what it still needs."""
    dead = undone_ranges(await read_all(journal, kinds=("Undone",), until=until))
    compacted = await live_compaction(journal, dead, until=until)
    history = History(encode)
    after = 0
    if compacted:
        history = History(encode, frozenset(compacted.stubbed))
        if compacted.summary:
            history.begin_with(compacted.summary)
        after = compacted.keep_from_seq - 1
    kinds = {*KINDS, "Undone"}
    async for recorded in events_in(journal, after=after, until=until, kinds=kinds, limit=5000):
        if is_live(recorded.seq, dead):
            history.apply(recorded)
    return history


async def live_compaction(
    journal: JournalReader, dead: Sequence[tuple[int, int]], *, until: int | None = None
) -> Compacted | None:
    """The newest compaction that still counts."""
    for recorded in reversed(await read_all(journal, kinds=("Compacted",), until=until)):
        if isinstance(recorded.event, Compacted) and not is_undone(recorded.seq, dead):
            return recorded.event
    return None


async def fresh_start(journal: JournalReader) -> int:
    """The first event that counts when nothing is left out: where the newest fresh history begins.
    `UsageError` when nothing is left out now."""
    dead = undone_ranges(await read_all(journal, kinds=("Undone",)))
    found = live(await read_all(journal, kinds=("Compacted",)), dead)
    live_ones = [item.event for item in found if isinstance(item.event, Compacted)]
    start = next((event.keep_from_seq for event in reversed(live_ones) if event.reason == FRESH), 1)
    last = live_ones[-1] if live_ones else None
    if last is None or (last.summary, last.stubbed, last.keep_from_seq) == ("", (), start):
        raise UsageError("There is no compaction to undo.")
    return start


class Projection:
    """The history of a journal that goes on growing while it is projected anew."""

    def __init__(self, encode: Callable[[Message], bytes]) -> None:
        self.encode = encode
        self._newer: list[Recorded] | None = None
        self.history = History(encode)
        self.is_stale = False
        """Whether something was taken out of the history since it was projected."""

    def apply(self, recorded: Recorded) -> None:
        self.history.apply(recorded)
        self.is_stale = self.is_stale or isinstance(recorded.event, REBUILDING)
        if self._newer is not None:
            self._newer.append(recorded)

    async def load(self, journal: JournalReader, *, until: int) -> None:
        """Projects the journal anew: what is on disk up to `until`, and what is applied meanwhile."""
        newer = self._newer = list[Recorded]()
        try:
            history = await load_history(journal, self.encode, until=until)
            for recorded in newer:
                history.apply(recorded)
        finally:
            self._newer = None
        history.learn_from(self.history)
        self.history = history
        self.is_stale = any(isinstance(recorded.event, REBUILDING) for recorded in newer)


async def recall(journal: JournalReader, name: str) -> bytes:
    """What is kept under a name: the text of the event that a handle names, or the blob with this hash.
    Raises `UsageError` or `JournalDamaged` when there is none."""
    seq = seq_of(name)
    if seq is None:
        return await journal.get(Blob(sha256=name, size=0))
    found = await journal.read(after=seq - 1, until=seq)
    event = found[0].event if found else None
    if isinstance(event, CallEnded) and event.full:
        return await journal.get(event.full)
    text = text_of(event) if event else ""
    if not text:
        raise UsageError(f"Event {seq} has no text.")
    return text.encode()


async def ended_calls(journal: JournalReader, calls: Collection[str]) -> dict[str, CallEnded]:
    """The results on record of these calls, or the newest there are, oldest first. Read from the end, since
    what is asked for is mostly recent and a journal may be large."""
    found: dict[str, CallEnded] = {}
    until = await journal.last_seq()
    while until > 0 and (not found if not calls else not found.keys() >= set(calls)):
        after = max(until - _LOOKED_BACK, 0)
        page = await journal.read(after=after, until=until, kinds=("CallEnded",), limit=_LOOKED_BACK)
        ended = [item.event for item in page if isinstance(item.event, CallEnded)]
        found = {event.call: event for event in ended if not calls or event.call in calls} | found
        until = after
    return found


async def read_all(
    journal: JournalReader, *, kinds: Collection[str], after: int = 0, until: int | None = None
) -> list[Recorded]:
    """Every event of these kinds; for kinds of which a journal has few."""
    found = events_in(journal, kinds=kinds, after=after, until=until, limit=5000)
    return [recorded async for recorded in found]


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


def live(recorded: Iterable[Recorded], dead: Sequence[tuple[int, int]]) -> Iterable[Recorded]:
    return (item for item in recorded if is_live(item.seq, dead))


def is_live(seq: int, dead: Sequence[tuple[int, int]]) -> bool:
    """Whether an event still counts, or is the `Undone` at the end of a stretch that does not."""
    return not is_undone(seq, dead) or any(seq == until for _, until in dead)


def is_undone(seq: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(after < seq <= until for after, until in ranges)

"""A history as a value that can be kept and given back: its messages in the bytes of their wire.

Attachments are not kept, they are fetched again from the journal. How a provider counts is not kept either:
what is given back is what projecting the journal anew would give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mainspring.context.history import History, SaidItem
from mainspring.context.media import WaitingMessage
from mainspring.events import CallAsked, CallEnded, Media, NoteAdded, UserSaid, decode, encode
from mainspring.models import Message, ResultsMessage, UserMessage

_Media = tuple[tuple[Media, ...], ...]
_Said = tuple[int, str, bytes]


class HistoryRecord(msgspec.Struct, frozen=True):
    stubbed: tuple[int, ...]
    messages: list[bytes]
    said_media: dict[int, tuple[UserMessage, _Media]]
    result_media: dict[int, tuple[ResultsMessage, _Media]]
    refused: dict[str, str]
    told: tuple[tuple[str, str], ...]
    first_unanswered: int
    asked: tuple[CallAsked, ...]
    ended: dict[str, CallEnded]
    deferred: tuple[_Said, ...]
    newest: tuple[_Said, ...]
    last_seq: int
    is_answered: bool


def history_record(history: History) -> HistoryRecord:
    """What is there now; nothing of it changes when the history goes on."""
    known: dict[str, Any] = vars(history)
    media: dict[str, Any] = vars(history.media)
    waiting: dict[int, WaitingMessage] = media["_known"]
    messages: list[bytes] = known["_messages"].copy()
    for place in waiting:
        messages[place] = b""
    return HistoryRecord(
        stubbed=tuple(sorted(known["_stubbed"])),
        messages=messages,
        said_media={
            place: (each.message, each.media)
            for place, each in waiting.items()
            if isinstance(each.message, UserMessage)
        },
        result_media={
            place: (each.message, each.media)
            for place, each in waiting.items()
            if isinstance(each.message, ResultsMessage)
        },
        refused=dict(media["_refused"]),
        told=tuple(sorted(media["_told"])),
        first_unanswered=known["_first_unanswered"],
        asked=known["_asked"],
        ended=dict(known["_ended"]),
        deferred=tuple(map(_kept, known["_deferred"])),
        newest=tuple(map(_kept, known["_newest"])),
        last_seq=history.last_seq,
        is_answered=history.is_answered,
    )


def restored_history(record: HistoryRecord, encode_message: Callable[[Message], bytes]) -> History:
    history = History(encode_message, frozenset(record.stubbed))
    vars(history).update(
        _messages=record.messages,
        _bytes=sum(map(len, record.messages)),
        _first_unanswered=record.first_unanswered,
        _asked=record.asked,
        _open={asked.call for asked in record.asked} - record.ended.keys(),
        _ended=record.ended,
        _deferred=list(map(_said, record.deferred)),
        _newest=list(map(_said, record.newest)),
    )
    history.last_seq, history.is_answered = record.last_seq, record.is_answered
    for place, (message, media) in sorted({**record.said_media, **record.result_media}.items()):
        history.media.add(place, WaitingMessage(message=message, media=media))
    vars(history.media).update(_refused=record.refused, _told=set(record.told))
    return history


def _kept(item: SaidItem) -> _Said:
    return item.seq, *encode(item.said)


def _said(item: _Said) -> SaidItem:
    event = decode(item[1], item[2])
    if not isinstance(event, UserSaid | NoteAdded):
        raise msgspec.ValidationError(f"{item[1]} is nothing that was said")
    return SaidItem(seq=item[0], said=event)

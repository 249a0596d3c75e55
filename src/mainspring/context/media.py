"""The attachments of a history: fetched when they are first sent, left out once they were refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from mainspring.events import Blob, Media, MediaLeftOut
from mainspring.models import Attachment, Message, ResultsMessage, UserMessage
from mainspring.models.attachments import left_out
from mainspring.secrets.screen import without_controls


class WaitingMessage(msgspec.Struct, frozen=True):
    """A message whose attachments are still in the journal."""

    message: UserMessage | ResultsMessage
    media: tuple[tuple[Media, ...], ...]


class HistoryMedia:
    """`waiting` are the messages that are to be encoded with their attachments, by their place."""

    def __init__(self) -> None:
        self.waiting: dict[int, WaitingMessage] = {}
        self._known: dict[int, WaitingMessage] = {}
        self._refused: dict[str, str] = {}
        self._told: set[tuple[str, str]] = set()
        self._fetched: list[tuple[Media, Attachment]] = []

    def add(self, place: int, message: WaitingMessage) -> None:
        self.waiting[place] = self._known[place] = message

    def drop(self, place: int) -> None:
        self.waiting.pop(place, None)
        self._known.pop(place, None)

    def leave_out(self, event: MediaLeftOut) -> None:
        self._told.update((blob, event.model) for blob in event.blobs)
        if not event.is_refused:
            return
        self._refused.update(dict.fromkeys(event.blobs, event.reason))
        for place, message in self._known.items():
            if any(item.blob.sha256 in event.blobs for media in message.media for item in media):
                self.waiting[place] = message

    def take_untold(self, model: str) -> list[tuple[Media, Attachment]]:
        """What was fetched since this was last asked and is not on record as left out for this model."""
        fetched, self._fetched = self._fetched, []
        return [item for item in fetched if (item[0].blob.sha256, model) not in self._told]

    def since(self, first: int) -> list[Media]:
        """The attachments of the messages from this place on that are not left out."""
        return [
            item
            for place, message in self._known.items()
            for media in message.media
            for item in media
            if place >= first and item.blob.sha256 not in self._refused
        ]

    async def attach(self, waiting: WaitingMessage, get: Callable[[Blob], Awaitable[bytes]]) -> Message:
        fetched = [tuple([await self._fetch(item, get) for item in media]) for media in waiting.media]
        message = waiting.message
        if isinstance(message, UserMessage):
            return UserMessage(text=message.text, attachments=fetched[0])
        return ResultsMessage(
            results=tuple(
                msgspec.structs.replace(result, attachments=attachments)
                for result, attachments in zip(message.results, fetched, strict=True)
            )
        )

    async def _fetch(self, media: Media, get: Callable[[Blob], Awaitable[bytes]]) -> Attachment:
        refused = self._refused.get(media.blob.sha256)
        if refused is not None:
            return left_out(media.name, refused)
        kind, data = media.blob.media_type, await get(media.blob)
        if kind.startswith("text/"):
            data = without_controls(data.decode("utf-8", "replace")).encode()
        found = Attachment(media_type=kind, data=data, name=without_controls(media.name))
        self._fetched.append((media, found))
        return found

"""The one writer of a session: a journal open for writing, and the vault that everything passes first.

What is recorded here can be read back, and holds no secrets; what stands in for them is kept before. Nobody
else holds a journal that can be written: everybody else gets a recorder, or `journal`, which only reads.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from mainspring.disk.log import is_logging, log
from mainspring.errors import InvalidValue, require_type
from mainspring.events import (
    STORED,
    ApprovalAdded,
    ApprovalGiven,
    ArtifactSaved,
    AssistantSaid,
    Blob,
    BranchMoved,
    CallEnded,
    CommandAsked,
    Compacted,
    DocsStarted,
    EffortChosen,
    EngineChosen,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    GuardTripped,
    ModeChosen,
    ModelChosen,
    NoteAdded,
    Origin,
    PageJudged,
    PromptSet,
    Recorded,
    RewindStarted,
    SessionResumed,
    SessionStarted,
    Text,
    Undone,
    UserSaid,
    decode,
    encode,
)
from mainspring.events.outline import outline
from mainspring.journal import Journal, JournalReader
from mainspring.secrets.redaction import redacted, redacted_blob
from mainspring.secrets.screen import without_controls
from mainspring.secrets.vault import Vault

_E = TypeVar("_E", bound=Event)
_S = TypeVar("_S", bound=msgspec.Struct)
_STORED = frozenset(STORED)
_TOLD: dict[type[Event], tuple[str, ...]] = {
    UserSaid: ("text",),
    NoteAdded: ("text",),
    ApprovalGiven: ("feedback",),
    CallEnded: ("output",),
    Compacted: ("summary",),
    GuardTripped: ("message",),
    PromptSet: ("system", "context"),
}
"""The texts of an event that are sent to a model: no control character is recorded in them."""


def check_event(event: Event) -> Event:
    """The event as it will be read back; raises `InvalidValue` when it could not be."""
    require_type(event, Event, "event")
    if type(event) not in _STORED:
        return event  # of a newer version, or none that a journal takes
    try:
        read = decode(*encode(event))
        if read != event:
            _check_values(event)
        return read
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise _invalid(event, error) from error


def _check_values(value: Any) -> None:
    """Raises `ValueError` for a value that JSON has no form for, and that would be read back as another."""
    match value:
        case bytes() | bytearray() | memoryview():
            raise ValueError("Expected `str`, got `bytes`")
        case float() if not math.isfinite(value):
            raise ValueError(f"Expected a finite number, got {value}")
        case msgspec.Struct():
            for field in value.__struct_fields__:
                _check_values(getattr(value, field))
        case dict():
            for inner in cast("dict[Any, Any]", value).items():
                _check_values(inner)
        case list() | tuple() | set() | frozenset():
            for inner in cast("tuple[Any, ...]", value):
                _check_values(inner)
        case _:
            pass


def _invalid(event: Event, error: Exception) -> InvalidValue:
    kind = type(event)
    said, _, path = str(error).partition(" - at `$")
    field = next(iter(re.findall(r"\w+", path)), "")
    allowed = _choices(get_type_hints(kind)[field]) if field in kind.__struct_fields__ else []
    where = f"{path[1:-1]} is not valid" if field else "a value is not valid"
    remedy = f"Allowed are {', '.join(map(repr, allowed))}." if allowed else ""
    said = f"{said[:1].lower()}{said[1:]}"
    return InvalidValue(f"{kind.__name__} was not recorded, {where}: {said}.", remedy=remedy)


def _choices(hint: Any) -> list[Any]:
    """The values that a type names, if it names any."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    named = [each for inner in get_args(hint) for each in _choices(inner)]
    return [*named, None] if named and type(None) in get_args(hint) else named


def hide_secrets(events: Sequence[Event], vault: Vault) -> list[Event]:
    """The events as they may be recorded, checked; what stands in for their secrets is kept already."""
    checked = [_without_controls(check_event(event)) for event in events]
    hidden = [redacted(event, vault) for event in checked]
    vault.save()
    return hidden


def _without_controls(event: Event) -> Event:
    if isinstance(event, AssistantSaid):
        parts = tuple(_clean(part, "text") if isinstance(part, Text) else part for part in event.parts)
        return event if parts == event.parts else msgspec.structs.replace(event, parts=parts)
    for field in _TOLD.get(type(event), ()):
        event = _clean(event, field)
    return event


def _clean(value: _S, field: str) -> _S:
    text = getattr(value, field)
    clean = without_controls(text)
    return value if clean is text else msgspec.structs.replace(value, **{field: clean})


def is_commanded(event: Event) -> bool:
    """Whether an event comes from a person's command, as the event itself says."""
    match event:
        case SessionStarted() | SessionResumed() | UserSaid() | CommandAsked() | ApprovalAdded():
            return True
        case EffortChosen() | ModeChosen() | RewindStarted() | Undone() | ArtifactSaved() | DocsStarted():
            return True
        case (
            NoteAdded(source=by)
            | ApprovalGiven(by=by)
            | ModelChosen(by=by)
            | GoalSet(by=by)
            | GoalPaused(by=by)
        ):
            return by == "user"
        case PageJudged(by=by):
            return by == "person"
        case GoalEnded():
            return event.ending == "stopped"
        case BranchMoved():
            return event.action != "committed"
        case Compacted():
            return event.reason in ("asked", "taken back")
        case EngineChosen():
            return not event.program
        case _:
            return False


def _has_origin(recorded: Recorded) -> bool:
    return getattr(recorded.event, "origin", None) is not None


class Recorder:
    """Writes the events and blobs of one session, without secrets. Those that come from a person's command
    are recorded with its `origin`, unless they have another one; `on_commanded` is told of them."""

    def __init__(
        self,
        journal: Journal,
        vault: Vault,
        origin: Origin | None = None,
        on_commanded: Callable[[Sequence[Recorded]], Awaitable[None]] | None = None,
    ) -> None:
        self._journal = journal
        self._on_commanded = on_commanded
        self.vault = vault
        self._origin = origin
        self._hidden = Event()

    @property
    def session(self) -> str:
        return self._journal.session

    @property
    def journal(self) -> JournalReader:
        return self._journal

    @property
    def origin(self) -> Origin | None:
        """Who gives commands here, unless an event says somebody else."""
        return self._origin

    async def record(self, *events: Event, is_durable: bool = True) -> Sequence[Recorded]:
        """Durable on return unless that is not asked for, all of one call or none, as `Journal.append`; none
        when one is not valid."""
        done = self._hidden
        left = [self._with_origin(each) for each in events if each is not done]
        hidden = iter(hide_secrets(left, self.vault))
        clean = [each if each is done else next(hidden) for each in events]
        recorded = await self._journal.append(*clean, is_durable=is_durable)
        if self._on_commanded and (commanded := [each for each in recorded if _has_origin(each)]):
            await self._on_commanded(commanded)
        if is_logging():
            for each in recorded:
                log(f"event {type(each.event).__name__}", seq=each.seq, **outline(each.event))
        return recorded

    def hidden(self, event: _E) -> _E:
        """The event as `record` records it, for whoever has to act on it in the same commit."""
        self._hidden = hide_secrets([event], self.vault)[0]
        return cast("_E", self._hidden)

    def _with_origin(self, event: Event) -> Event:
        if self._origin is None or not is_commanded(event) or getattr(event, "origin", None) is not None:
            return event
        return msgspec.structs.replace(event, origin=self._origin)

    async def put_blob(self, data: bytes, media_type: str = "text/plain") -> Blob:
        """Keeps the bytes; a text without its secrets."""
        return (await self.put_blobs([(data, media_type)]))[0]

    async def put_blobs(self, contents: Sequence[tuple[bytes, str]]) -> list[Blob]:
        """Keeps contents, each with its media type, as above; secrets are looked for in a thread."""
        hidden = await asyncio.to_thread(self._redacted, contents)
        self.vault.save()
        return [await self._journal.put(data, media_type) for data, media_type in hidden]

    def _redacted(self, contents: Sequence[tuple[bytes, str]]) -> list[tuple[bytes, str]]:
        return [(redacted_blob(data, kind, self.vault), kind) for data, kind in contents]

    async def get_blob(self, blob: Blob) -> bytes:
        return await self._journal.get(blob)

    def subscribe(
        self,
        on_recorded: Callable[[Sequence[Recorded]], None],
        on_durable: Callable[[int], None] | None = None,
    ) -> None:
        """Sets the functions that are told of what was recorded, as `Journal.subscribe`."""
        self._journal.subscribe(on_recorded, on_durable)

    async def anchor(self) -> None:
        """Keeps where the journal ends outside it, as `Journal.anchor`."""
        await self._journal.anchor()

    async def close(self) -> None:
        await self._journal.close()

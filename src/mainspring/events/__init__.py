"""The words: every fact that a journal records, and the deltas that are shown but never stored.

Facts are frozen and named in the past tense. Fields may be added with a default and are never renamed,
retyped or removed, so a journal written by any earlier version always loads. A kind this version does not
know is kept as `Unknown`. Nothing here knows how facts are stored, sent or drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mainspring.events import (
    agents,
    approvals,
    attempts,
    docs,
    fixes,
    goals,
    hooks,
    jobs,
    reviews,
    session,
    waits,
    workspace,
)

# Every name of these modules is one of this package: an event is written down once, where it is defined.
from mainspring.events.agents import *  # noqa: F403
from mainspring.events.approvals import *  # noqa: F403
from mainspring.events.attempts import *  # noqa: F403
from mainspring.events.base import Event, Unknown
from mainspring.events.deltas import *  # noqa: F403
from mainspring.events.docs import *  # noqa: F403
from mainspring.events.escaping import escape_json
from mainspring.events.fixes import *  # noqa: F403
from mainspring.events.goals import *  # noqa: F403
from mainspring.events.hooks import *  # noqa: F403
from mainspring.events.jobs import *  # noqa: F403
from mainspring.events.reviews import *  # noqa: F403
from mainspring.events.session import *  # noqa: F403
from mainspring.events.values import *  # noqa: F403
from mainspring.events.waits import *  # noqa: F403
from mainspring.events.workspace import *  # noqa: F403

STORED: tuple[type[Event], ...] = tuple(
    kind
    for module in (
        session,
        approvals,
        workspace,
        waits,
        goals,
        attempts,
        fixes,
        agents,
        hooks,
        reviews,
        docs,
        jobs,
    )
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == module.__name__
)
"""Every kind that a journal keeps: each event of the twelve modules, as they define them."""

_KINDS = {kind.__name__: kind for kind in STORED}
_DECODE: dict[str, Callable[[bytes], Event]] = {}  # made when a kind is first met: a start needs few of them
_ENCODER = msgspec.json.Encoder(order="deterministic")
_NUMBERS: dict[type[Event], tuple[tuple[str, float], ...]] = {}  # as above


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event where it stands: its number, and microseconds since 1970 in UTC. A delta has the number 0."""

    seq: int
    time_us: int
    event: Event

    @property
    def kind(self) -> str:
        return self.event.kind if isinstance(self.event, Unknown) else type(self.event).__name__


def encode(event: Event) -> tuple[str, bytes]:
    """The kind and the JSON body of an event, as a journal stores them."""
    if isinstance(event, Unknown):
        return event.kind, bytes(event.body)
    return type(event).__name__, escape_json(_ENCODER.encode(_without_defaults(event)))


def _without_defaults(event: Event) -> Event:
    """The same event. A default is left out of a body when it is the very same object; a number that was
    computed or read is not."""
    kind = type(event)
    numbers = _NUMBERS.get(kind)
    if numbers is None:
        # Defaults belong to the last fields; asking for the fields would work their types out as well.
        defaults = kind.__struct_defaults__
        named = zip(kind.__struct_fields__[-len(defaults) :], defaults, strict=True) if defaults else ()
        numbers = _NUMBERS[kind] = tuple(each for each in named if isinstance(each[1], float))
    changed = {
        name: default
        for name, default in numbers
        if (value := getattr(event, name)) is not default and value == default
    }
    return msgspec.structs.replace(event, **changed) if changed else event


def decode(kind: str, body: bytes) -> Event:
    """The event of a stored kind and body; raises `msgspec.MsgspecError` when the body does not fit."""
    known = _DECODE.get(kind)
    if known is None:
        if kind not in _KINDS:
            return Unknown(kind=kind, body=msgspec.Raw(body))
        known = _DECODE[kind] = msgspec.json.Decoder(_KINDS[kind]).decode
    try:
        return known(body)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error

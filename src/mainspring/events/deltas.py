"""What is shown while it happens and never stored."""

from mainspring.events.base import Event


class TextDelta(Event, frozen=True):
    text: str


class ThinkingDelta(Event, frozen=True):
    text: str = ""
    opaque: str = ""
    wire: str = ""


class CallDelta(Event, frozen=True):
    """A fragment of the call at `index`; id and name come once, arguments in pieces."""

    index: int
    name: str = ""
    arguments: str = ""
    provider_id: str = ""
    opaque: str = ""


class OutputDelta(Event, frozen=True):
    """Live output of a running call."""

    call: str
    text: str


class StatusDelta(Event, frozen=True):
    """How far something is that takes long: a wait, with the time that is left, or a look at a workspace."""

    text: str
    wait: str = ""


Delta = TextDelta | ThinkingDelta | CallDelta | OutputDelta | StatusDelta
"""Shown while it happens, never stored: the whole follows as an event."""

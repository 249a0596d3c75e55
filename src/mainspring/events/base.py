"""What every event is."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A recorded fact. Facts never refer to each other in circles, so the collector does not look at them."""


class Unknown(Event, frozen=True):
    """A fact of a kind that this version does not know, kept as it was."""

    kind: str
    body: msgspec.Raw

"""How long is waited, as the settings have it."""

from __future__ import annotations

from typing import Annotated

import msgspec

_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=3650 * _DAY_S)]


class Patience(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long is waited (`[waits]` in `config.toml`): by a call that does not say, by one that does, and for
    a provider that says when it answers again."""

    default_s: _Seconds = _HOUR_S
    """Default duration of the tool wait, in seconds."""
    max_s: _Seconds = 7 * _DAY_S
    """Maximum duration of the tool wait, in seconds."""
    max_quota_wait_s: _Seconds = _DAY_S
    """Maximum seconds that a turn waits for a provider's rate limit to end."""

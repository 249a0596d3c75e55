"""What `[checks]` in `config.toml` says about looking at changed files."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class ChecksSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether changed files are checked, and how long a step waits for that."""

    after_change: Literal["off", "warn", "block"] = "warn"
    """Check the files that a step changed, and tell the model what is wrong now and was not before. `block`:
    a turn is not done while errors that the session made stand; the model is asked twice, then the turn
    fails."""
    linters: Literal["on", "off"] = "on"
    """Also run the linters and formatters that the project configures."""
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 300
    """How long a step waits for linters; what they find later is told at the next step."""

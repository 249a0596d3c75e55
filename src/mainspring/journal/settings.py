"""What people set about journals, and where they are kept. Checked here, read by `settings.py`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec

STORE_VARIABLE = "MAINSPRING_STORE"


class JournalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept about journals besides themselves (`[journal]` in `config.toml`)."""

    daily_anchor: str = ""
    """A file that gets a line for each session and day on which a turn of it ended, when the session is
    closed: date (UTC), session, number of events, hash of the last one. Kept where this account cannot change
    it, it shows a rewritten journal: `mainspring verify` compares. Empty: none."""


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A database that machines share, in which sessions are kept (`[store]` in `config.toml`)."""

    url: str = ""
    """Its address: postgresql://user@host:5432/database. `MAINSPRING_STORE` comes before it. Empty: sessions
    are kept in files of this machine."""
    lease_s: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 15.0
    """How long a machine that is not heard of keeps the right to write a session; then another may go on."""


def store_secrets(url: str) -> dict[str, str]:
    """The password in an address, by the variable that may hold it."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return {}
    return {STORE_VARIABLE: password} if password else {}

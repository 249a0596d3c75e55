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
    park_s: Annotated[float, msgspec.Meta(ge=1, le=24 * 3600)] = 60.0
    """A goal that sleeps for longer than this gives its worker's process up until it wakes."""

    def __post_init__(self) -> None:
        if self.url and not self.url.startswith(("postgresql://", "postgres://")):
            raise ValueError("the url of a store begins with postgresql://")


class TemporalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Temporal server (`[temporal]` in `config.toml`) that tells workers which sessions of `[store]` to
    work on. A key for it is read from `TEMPORAL_API_KEY`."""

    address: str = ""
    """Its host and port: localhost:7233. Empty: workers look in the database themselves."""
    namespace: str = "default"
    """The namespace in it."""
    tls: bool = False
    """Whether it is spoken to over TLS; with a key it always is."""


def store_secrets(url: str) -> dict[str, str]:
    """The password in an address, by the variable that may hold it."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return {}
    return {STORE_VARIABLE: password} if password else {}

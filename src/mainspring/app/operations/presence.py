"""Which sessions a person sees at a face just now: what is shown there is not told elsewhere."""

from __future__ import annotations

from contextlib import suppress

from mainspring.notify.outbox import Outbox
from mainspring.settings import Config


def note_shown(config: Config, session: str) -> None:
    """A full disk costs a notification too many, and nothing else."""
    with suppress(OSError):
        Outbox(config.home).show(session)

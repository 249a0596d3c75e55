"""What models were found not to take, kept in a file of the data folder, so that the next process does not
send it again. The file only saves refusals: it may be deleted, and forgets after a week: servers change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from mainspring.disk.files import make_folder, write_private

_FORMAT = 2
_KEPT_S = 7 * 24 * 3600.0
_MAX_LACKS = 32


class _Content(msgspec.Struct, frozen=True):
    """The file. One without a version, or of another, is begun again."""

    models: dict[str, dict[str, float]] = {}
    format_version: int = 1


class Capabilities:
    """`model` is an address and a model's name there. Of each lack it is known when it was found."""

    def __init__(self, file: Path, *, now: Callable[[], float] = time.time) -> None:
        self._file = file
        self._now = now

    def known(self, model: str) -> frozenset[str]:
        """What this model lacks."""
        return frozenset(self._read().get(model, {}))

    def keep(self, model: str, lacks: Collection[str]) -> None:
        """Adds what was found; where it cannot be written, it is found again."""
        found = self._read()
        now = self._now()
        known = {**dict.fromkeys(lacks, now), **found.get(model, {})}
        found[model] = dict(sorted(known.items(), key=lambda item: -item[1])[:_MAX_LACKS])
        try:
            make_folder(self._file.parent)
            write_private(self._file, msgspec.json.encode(_Content(found, _FORMAT)))
        except OSError:
            return

    def _read(self) -> dict[str, dict[str, float]]:
        try:
            content = msgspec.json.decode(self._file.read_bytes(), type=_Content)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}
        if content.format_version != _FORMAT:
            return {}
        oldest = self._now() - _KEPT_S
        return {
            model: fresh
            for model, lacks in content.models.items()
            if (fresh := {lack: found_at for lack, found_at in lacks.items() if found_at > oldest})
        }

"""What providers said that they serve, kept with its time in a file of the data folder. It only saves asking:
the file may be deleted, and a list counts for a day.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from mainspring.disk.files import make_folder, write_private
from mainspring.models.served import ServedModel

_FORMAT = 1
_FRESH = timedelta(days=1)
_MOST_LISTS = 50


class KeptList(msgspec.Struct, frozen=True, omit_defaults=True):
    asked_at: datetime
    models: tuple[ServedModel, ...] = ()


class _Content(msgspec.Struct, frozen=True):
    """The file. One of another version is begun again."""

    lists: dict[str, KeptList] = {}
    format_version: int = 0


class ModelLists:
    """`place` is a provider and its address."""

    def __init__(self, file: Path, *, now: Callable[[], datetime] | None = None) -> None:
        self._file = file
        self._now = now or (lambda: datetime.now(UTC))

    def all(self) -> Mapping[str, KeptList]:
        try:
            content = msgspec.json.decode(self._file.read_bytes(), type=_Content)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}
        return content.lists if content.format_version == _FORMAT else {}

    def is_fresh(self, kept: KeptList) -> bool:
        return timedelta() <= self._now() - kept.asked_at < _FRESH

    def keep(self, place: str, models: tuple[ServedModel, ...]) -> KeptList:
        """Notes what was said now; where it cannot be written, it is asked again."""
        kept = KeptList(self._now().replace(microsecond=0), models)
        lists = {**self.all(), place: kept}
        newest = sorted(lists.items(), key=lambda item: item[1].asked_at, reverse=True)[:_MOST_LISTS]
        try:
            make_folder(self._file.parent)
            write_private(self._file, msgspec.json.encode(_Content(dict(newest), _FORMAT)))
        except OSError:
            pass
        return kept

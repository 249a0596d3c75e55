"""SQLite's own way to the disk, which tells how large a WAL is whenever it was synced.

What lies behind that size was written, and would be gone with the power.
"""

import os
from collections.abc import Callable
from typing import Any

import apsw

_USUAL = apsw.vfs_names()[0]


class SyncedDisk(apsw.VFS):
    """The way that every connection takes from now on, as long as somebody holds this."""

    def __init__(self, on_sync: Callable[[int], object]) -> None:
        self._on_sync = on_sync
        super().__init__("synced", _USUAL, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:  # noqa: N802 - its name
        is_wal = flags[0] & apsw.SQLITE_OPEN_WAL
        return _Wal(name, flags, self._on_sync) if is_wal else apsw.VFSFile(_USUAL, name, flags)


class _Wal(apsw.VFSFile):
    def __init__(self, name: Any, flags: Any, on_sync: Callable[[int], object]) -> None:
        super().__init__(_USUAL, name, flags)
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._on_sync = on_sync

    def xSync(self, flags: int) -> None:  # noqa: N802 - its name
        super().xSync(flags)
        self._on_sync(os.path.getsize(self._path))

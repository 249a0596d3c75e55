"""Whether anything happened in folders since they were looked at, as the kernel tells (inotify).

It cannot tell what another machine writes, and tells late of what is written through a mapping or by another
name of a file outside; so this only bridges the moment between a look and the call that it was for.
"""

from __future__ import annotations

from contextlib import suppress

from mainspring.sandbox.watch import FolderWatch
from mainspring.system import is_local_disk

_MAX_FOLDERS = 20_000


class Quiet:
    """Knows nothing, and says so, where the kernel does not tell."""

    def __init__(self, root: str) -> None:
        self._watch: FolderWatch | None = None
        with suppress(OSError):
            self._watch = FolderWatch(has_writes=True) if is_local_disk(root) else None

    def add(self, folder: str) -> None:
        """From here on what happens in a folder counts."""
        try:
            if self._watch and self._watch.count < _MAX_FOLDERS:
                self._watch.add(folder)
                return
        except OSError:
            pass
        self.close()

    @property
    def is_told(self) -> bool:
        return self._watch is not None

    def has_held(self) -> bool:
        """Whether nothing happened so far."""
        return self._watch is not None and not self._watch.changes()

    def close(self) -> None:
        if self._watch:
            self._watch.close()
            self._watch = None

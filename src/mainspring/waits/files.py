"""Files: there, gone, changed, or with a line that matches. Looked at under the session's own policy.

What can block or never ends (a pipe, a device) is never read, only looked for. Matching reads what is new.
"""

from __future__ import annotations

import asyncio

import msgspec

from mainspring.errors import PathRefused, UsageError
from mainspring.events import OnFile
from mainspring.sandbox.files import Version
from mainspring.sandbox.regex import check_pattern, matching
from mainspring.waits.decide import Observation
from mainspring.waits.reach import WaitContext
from mainspring.waits.watch import ConditionWatch, Growing

_ABSENT = "absent"
_READ_BYTES = 1 << 20
_MAX_LINE = 4000
_SHOWN_LINE = 400


class FileWatch(ConditionWatch):
    def __init__(self, condition: OnFile, waiting: WaitContext) -> None:
        self._files = waiting.files
        try:
            found = self._files.version(condition.path)
        except (PathRefused, OSError) as error:
            raise UsageError(f"{condition.path} cannot be waited for: {error}") from error
        if condition.until == "changed" and not condition.before:
            condition = msgspec.structs.replace(condition, before=_fingerprint(found))
        super().__init__(condition)
        self._on = condition
        if condition.until == "matches":
            check_pattern(condition.pattern)
        self._pause = Growing(waiting.reach.pace.file_s)
        self._inode, self._offset, self._rest = 0, 0, b""

    async def look(self) -> Observation | None:
        try:
            return await asyncio.to_thread(self._look)
        except PathRefused as error:
            return Observation(f"{self._on.path} cannot be looked at any more: {error}", is_lost=True)
        except TimeoutError:
            text = f"the pattern {self._on.pattern!r} takes too long on {self._on.path}; use a simpler one"
            return Observation(text, is_lost=True)
        except OSError:
            return None

    def _look(self) -> Observation | None:
        on, found = self._on, self._files.version(self._on.path)
        at_us = found.mtime_ns // 1000 if found else None
        match on.until:
            case "exists":
                return Observation(f"{on.path} is there, {found.size:,} bytes", at_us) if found else None
            case "gone":
                return None if found else Observation(f"{on.path} is gone")
            case "changed":
                if _fingerprint(found) == on.before:
                    return None
                now = f"it has {found.size:,} bytes now" if found else "it is gone"
                return Observation(f"{on.path} has changed: {now}", at_us)
            case "matches":
                line = self._matching(found) if found else None
                return Observation(f"{on.path} has the line: {line[:_SHOWN_LINE]}", at_us) if line else None

    def _matching(self, found: Version) -> str | None:
        """The first line that matches among what is new. A file that was replaced or cut is new."""
        if found.inode != self._inode or found.size < self._offset:
            self._inode, self._offset, self._rest = found.inode, 0, b""
            self._files.read(self._on.path, max_bytes=0)  # refuses what is not a file
        while self._offset < found.size:
            data = self._files.read(self._on.path, offset=self._offset, max_bytes=_READ_BYTES).data
            if not data:
                return None
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            texts = [
                line[:_MAX_LINE].decode("utf-8", errors="replace").rstrip("\r")
                for line in (*lines, self._rest)
            ]
            if found_at := matching(self._on.pattern, texts):
                return texts[found_at[0]] or " "
            self._rest = self._rest[:_MAX_LINE]
        return None


def _fingerprint(found: Version | None) -> str:
    return f"{found.inode}:{found.size}:{found.mtime_ns}" if found else _ABSENT

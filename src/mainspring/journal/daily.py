"""A line per day and session in a file that a person names, to be kept elsewhere: `date session events hash`.

Whoever rewrites a journal and its anchor alike is found out by a line that they cannot change. Lines are only
appended, when a session is closed or another day begins; dates are UTC.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from mainspring.disk.files import closing_descriptor, make_folder
from mainspring.disk.untrusted import read_untrusted_lines
from mainspring.journal.anchor import Anchor

_MAX_LINE_BYTES = 1 << 20
_CARE = 0 if sys.platform == "win32" else os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def append_line(path: Path, date: str, session: str, anchor: Anchor) -> None:
    """Adds a line in one write, durable when this returns."""
    make_folder(path.parent)
    with closing_descriptor(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _CARE, 0o600)) as fd:
        os.write(fd, f"{date} {session} {anchor.events} {anchor.head}\n".encode())
        os.fsync(fd)


def anchors_in(path: Path, session: str) -> Iterator[Anchor]:
    """What the lines of a file say about a session; `OSError` when it cannot be read."""
    for line in read_untrusted_lines(path, max_line_bytes=_MAX_LINE_BYTES):
        match line.decode("utf-8", "replace").split():
            case [_, name, events, head] if name == session and events.isascii() and events.isdecimal():
                yield Anchor(events=int(events), head=head)
            case _:
                continue

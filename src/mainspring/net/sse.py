"""Server-sent events, incrementally, on bytes: feed what arrived, get the data of the events it completed.

Lines may end in LF, CRLF or CR and be cut anywhere, also inside a character. Only `data` is of interest here:
the providers repeat an event's name inside its data. An event may not grow beyond `max_bytes`.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """More than `max_bytes` came without the end of an event."""


class EventParser:
    def __init__(self, *, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_start = True

    def feed(self, received: bytes) -> list[bytes]:
        if b"\n" not in received and b"\r" not in received:
            self._hold(received)
            return []
        if self._rest:
            received = b"".join((*self._rest, received))
            self._rest.clear()
            self._rest_bytes = 0
        if b"\r" in received:
            received = _with_line_feeds(received)
        if self._is_start:
            self._is_start = False
            received = received.removeprefix(_BOM)
        *lines, rest = received.split(b"\n")
        events = self._read(lines)
        self._hold(rest)
        return events

    def flush(self) -> list[bytes]:
        """The event under way when the stream ended: some servers leave out the last blank line."""
        return self.feed(b"\n\n") if self._rest or self._data else []

    def _read(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._data.append(value)
                self._data_bytes += len(value)
            elif not line and self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data.clear()
                self._data_bytes = 0
        return events

    def _hold(self, received: bytes) -> None:
        if received:
            self._rest.append(received)
            self._rest_bytes += len(received)
        if self._rest_bytes + self._data_bytes > self._max_bytes:
            raise EventTooLarge


def _with_line_feeds(received: bytes) -> bytes:
    # A CR at the very end may be half of a CRLF: it is kept as it is, until what follows is known.
    held = b"\r" if received.endswith(b"\r") else b""
    body = received[:-1] if held else received
    return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held

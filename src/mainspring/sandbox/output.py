"""Keep the beginning and the end of a stream of any length in bounded memory."""

from __future__ import annotations

from collections import deque

CHUNK = 16 * 1024


class HeadAndTail:
    """Half of `limit` holds the first bytes, half the last; what lies between is only counted."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._head = bytearray()
        self._head_limit = limit // 2
        self._tail: deque[bytearray] = deque()
        self._tail_size = 0
        self._tail_limit = limit - limit // 2

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        if (room := self._head_limit - len(self._head)) > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        if self._tail and len(self._tail[-1]) < CHUNK:
            self._tail[-1] += data
        else:
            self._tail.append(bytearray(data))
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    @property
    def dropped(self) -> int:
        return max(0, self.total - len(self._head) - min(self._tail_size, self._tail_limit))

    def text(self, mark: str = "\n[... {} bytes left out ...]\n") -> bytes:
        """The head and the tail, with a mark between them where something is missing."""
        tail = b"".join(self._tail)
        if not self.dropped:
            return bytes(self._head) + tail
        kept = tail[len(tail) - self._tail_limit :]
        return bytes(self._head) + mark.format(self.dropped).encode() + kept

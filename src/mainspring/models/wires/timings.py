"""How fast a llama.cpp server was, as it says in the last chunk of a stream."""

from __future__ import annotations

import msgspec

from mainspring.events import Speed


class Timings(msgspec.Struct):
    """A rate is null when nothing was measured: a prompt that was all in the cache."""

    prompt_per_second: float | None = None
    predicted_per_second: float | None = None

    def speed(self) -> Speed:
        read, written = self.prompt_per_second or 0.0, self.predicted_per_second or 0.0
        return Speed(input_per_s=round(read, 1), output_per_s=round(written, 1))

"""One condition, watched: looked at, rested, looked at again until something is seen. And the simplest of
them: the clock, and the answer to a question.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from mainspring.events import Condition, OnAnswer, OnChild, OnQuota, OnTime
from mainspring.waits.decide import Observation
from mainspring.waits.describe import clock, described
from mainspring.waits.reach import WaitContext

TEXT_LIMIT = 2000
"""Characters that one condition may add to a summary."""


class ConditionWatch:
    """`condition` is complete: whoever opens the journal later can watch the same thing."""

    _pause: Growing

    def __init__(self, condition: Condition) -> None:
        self.condition = condition

    async def look(self) -> Observation | None:
        """What was seen; None while the condition is not met."""
        raise NotImplementedError

    async def rest(self) -> None:
        """Returns when looking again is worth it."""
        await self._pause.rest()

    async def settle(self) -> None:
        """What was seen is on record now."""

    async def close(self) -> None:
        """Gives back what watching took."""

    def so_far(self) -> str:
        """What it is like while it is not met."""
        return described(self.condition)

    def roots(self) -> Collection[int]:
        """The processes whose trees must make progress."""
        return ()


class Growing:
    """Rests that get longer: what did not happen soon will not happen soon."""

    def __init__(self, bounds: tuple[float, float]) -> None:
        self._next_s, self._most_s = bounds

    async def rest(self) -> None:
        await asyncio.sleep(self._next_s)
        self._next_s = min(self._next_s * 1.25, self._most_s)


class TimeWatch(ConditionWatch):
    def __init__(self, condition: OnTime | OnQuota, waiting: WaitContext) -> None:
        super().__init__(condition)
        self._at_us = condition.at_us
        self._reach = waiting.reach
        model = condition.model if isinstance(condition, OnQuota) else ""
        self._text = f"{model} should answer again" if model else f"It is past {clock(condition.at_us)}"

    async def look(self) -> Observation | None:
        return Observation(self._text, self._at_us) if self._reach.clock() >= self._at_us else None

    async def rest(self) -> None:
        left_s = max(self._at_us - self._reach.clock(), 0) / 1e6
        await asyncio.sleep(min(left_s, self._reach.pace.slice_s))


class RecordWatch(ConditionWatch):
    """What this session's own journal will say: the answer to a question, or the end of a child, which
    whoever runs the child records."""

    def __init__(self, condition: OnAnswer | OnChild, waiting: WaitContext) -> None:
        super().__init__(condition)
        self._wanted = condition
        self._state = waiting.state

    async def look(self) -> Observation | None:
        match self._wanted:
            case OnAnswer(call=call):
                answer = self._state.waits.answer(call)
                return Observation(f"The question of {call} was answered: {answer}") if answer else None
            case OnChild(child=child):
                ended = self._state.children.ended.get(child)
                return Observation(f"Child {child}: {ended.state}") if ended else None

    async def rest(self) -> None:
        await asyncio.wait({self._state.waits.stirring()})


async def readable(descriptor: int, within_s: float) -> bool:
    """Whether a descriptor became readable in time."""
    loop = asyncio.get_running_loop()
    is_ready = asyncio.Event()
    loop.add_reader(descriptor, is_ready.set)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(is_ready.wait(), within_s)
        return is_ready.is_set()
    finally:
        loop.remove_reader(descriptor)


def last_lines(data: bytes) -> str:
    """The end of an output, short."""
    text = data.decode("utf-8", errors="replace")
    return "\n".join(text.rstrip().splitlines()[-10:])[-TEXT_LIMIT // 2 :]

"""The one place that retries: a model that tries again, within bounds, and says so each time.

At most `max_requests` are made for a request. A refusal that the wire can live with is healed and tried again
at once, and does not count: strict servers name one field at a time. What may pass is waited for. A wait
longer than `longest_wait_s` is not slept: the error is raised with its `retry_after_s`, so that the caller
can make it a durable wait. What an attempt streamed before it failed is void: `Retrying` says so.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Annotated

import msgspec

from mainspring.errors import ModelError, RateLimited
from mainspring.models import Model, ReplyFinished, Request, Retrying, StreamItem
from mainspring.models.wrapper import ModelWrapper

_MOST_HEALED = 12
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=10 * 365 * 24 * 3600)]


class RetryPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Waits are what the provider asks for, else these by attempt, shortened at random by up to a quarter."""

    max_requests: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Maximum attempts per request, the first included."""
    total_s: _Seconds = 1800.0
    """Seconds after which a request is not retried any more."""
    longest_wait_s: _Seconds = 60.0
    """Delays longer than this many seconds become a recorded wait, which survives a restart."""
    waits_s: tuple[_Seconds, ...] = (2.0, 8.0, 20.0)
    """Delays before each retry in seconds, when the provider names none."""
    rate_limit_waits_s: tuple[_Seconds, ...] = (10.0, 30.0, 60.0)
    """Delays before each retry after a rate limit, in seconds."""


class Retried(ModelWrapper):
    """A `Model` over another. `heal` adapts the model to an error; True means that it is worth a new try.
    `keep` is called when that try succeeded, and `explain` may say more of an error that is final."""

    def __init__(
        self,
        model: Model,
        *,
        heal: Callable[[ModelError], bool] | None = None,
        keep: Callable[[], None] | None = None,
        explain: Callable[[ModelError], ModelError] | None = None,
        policy: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(model)
        self._heal = heal
        self._keep = keep
        self._explain = explain
        self._is_healed = False
        self._policy = policy or RetryPolicy()
        self._sleep = sleep
        self._clock = clock
        self._chance = chance

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        started = self._clock()
        attempt = healed = 0
        while True:
            attempt += 1
            try:
                async with aclosing(self._model.stream(request)) as items:
                    async for item in items:
                        if self._is_healed and isinstance(item, ReplyFinished):
                            self._remember()
                        yield item
                return
            except ModelError as error:
                if healed < _MOST_HEALED and self._heals(error):
                    healed, wait_s = healed + 1, 0.0
                else:
                    wait_s = self._wait_s(error, attempt - healed, self._clock() - started)
                if wait_s is None:
                    explained = self._explain(error) if self._explain is not None else error
                    if explained is error:
                        raise
                    raise explained from error
                retrying = Retrying(attempt, type(error).__name__, error.message, wait_s)
            yield retrying
            await self._sleep(wait_s)

    def _remember(self) -> None:
        self._is_healed = False
        if self._keep is not None:
            self._keep()

    def _heals(self, error: ModelError) -> bool:
        is_healed = self._heal is not None and self._heal(error)
        self._is_healed = self._is_healed or is_healed
        return is_healed

    def _wait_s(self, error: ModelError, attempt: int, passed_s: float) -> float | None:
        """How long to wait before the next attempt; None when there is none."""
        policy = self._policy
        if attempt >= policy.max_requests or not error.is_transient:
            return None
        wait_s = error.retry_after_s
        if wait_s is None:
            waits = policy.rate_limit_waits_s if isinstance(error, RateLimited) else policy.waits_s
            wait_s = waits[min(attempt, len(waits)) - 1] * (1 - self._chance() / 4)
        is_bearable = wait_s <= policy.longest_wait_s and passed_s + wait_s <= policy.total_s
        return wait_s if is_bearable else None

"""The workflow of a session on Temporal. It knows the session's id, when it wakes, and nothing that was said.

It gives the session to a worker again and again until nothing more is to be done; between, it waits for a
time, or for somebody who says that there is something new. What that is lies in the journal. And the workflow
of a schedule's time, which only has a worker begin what was scheduled.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy, SearchAttributeKey

NAME = "mainspring-session"
WORK = "mainspring-work"
SCHEDULED = "mainspring-schedule"
BEGIN = "mainspring-begin"
STATE = SearchAttributeKey.for_keyword("MainspringState")

_TIME = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")
_HEARTBEAT = timedelta(seconds=10)
"""A worker that is not heard of for so long is gone; the lease of its session may last longer."""
_EVERY_2_S = RetryPolicy(initial_interval=timedelta(seconds=2), backoff_coefficient=1.0)
_EVENTS = 200
"""A run of the workflow ends after so many events, and the next one goes on: histories stay small."""


@workflow.defn(name=NAME, sandboxed=False)
class SessionWorkflow:
    """Every signal is the same hint, to look; its name tells who reads the history what happened."""

    def __init__(self) -> None:
        self._is_poked = False

    @workflow.signal(dynamic=True)
    def hear(self, _name: str, _given: Sequence[RawValue]) -> None:
        self._is_poked = True

    @workflow.run
    async def run(self, session: str) -> str:
        """Gives the state in which the session was left."""
        while True:
            self._is_poked = False
            _show("at work")
            state, wake_us, is_over = await workflow.execute_activity(
                WORK,
                session,
                result_type=tuple[str, int | None, bool],
                start_to_close_timeout=timedelta(days=365),
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_EVERY_2_S,
            )
            if self._is_poked:
                continue
            _show(state)
            if is_over:
                return state
            await self._rest(wake_us)
            if workflow.info().get_current_history_length() > _EVENTS:
                workflow.continue_as_new(session)

    async def _rest(self, wake_us: int | None) -> None:
        """Until somebody says that there is something new, or the time has come."""
        timeout_s = None if wake_us is None else max(0.0, wake_us / 1e6 - workflow.time())
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: self._is_poked, timeout=timeout_s)


@workflow.defn(name=SCHEDULED, sandboxed=False)
class ScheduleWorkflow:
    @workflow.run
    async def run(self, schedule: str) -> str:
        """Gives what became of the time for which Temporal began this."""
        at = workflow.info().typed_search_attributes.get(_TIME) or workflow.now()
        return await workflow.execute_activity(
            BEGIN,
            args=(schedule, int(at.timestamp() * 1e6)),
            result_type=str,
            start_to_close_timeout=timedelta(minutes=5),
            retry_policy=_EVERY_2_S,
        )


def _show(state: str) -> None:
    if workflow.info().typed_search_attributes.get(STATE) != state:
        workflow.upsert_search_attributes([STATE.value_set(state)])  # pyright: ignore[reportUnknownMemberType]

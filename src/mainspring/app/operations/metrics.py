"""Metrics of all sessions: what was counted while a process looks, and how things stand."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from mainspring.app.operations.questions import QuestionWatch
from mainspring.app.operations.traces import folded
from mainspring.app.operations.workers import WorkerFleet, fleet
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow
from mainspring.errors import JournalError
from mainspring.settings import Config
from mainspring.telemetry.fold import SpanFold
from mainspring.telemetry.metrics import CountedMetric, SpanMetrics, gauge


async def standing_metrics(
    config: Config, rows: Sequence[SessionRow], watch: QuestionWatch
) -> list[CountedMetric]:
    """How sessions, questions and workers stand."""
    states = Counter(row.state for row in rows)
    goals = Counter(row.goal_state or "running" for row in rows if row.goal)
    waiting = sum(row.is_waiting for row in rows)
    questions = len(await watch.among(rows))
    found = [
        gauge(
            "mainspring.sessions",
            "Sessions by state.",
            (({"state": state}, count) for state, count in sorted(states.items())),
        ),
        gauge(
            "mainspring.goals",
            "Goals by state.",
            (({"state": state}, count) for state, count in sorted(goals.items())),
        ),
        gauge("mainspring.sessions.asleep", "Sessions that sleep until something happens.", [({}, waiting)]),
        gauge("mainspring.questions.open", "Questions that wait for a person.", [({}, questions)]),
        gauge(
            "mainspring.recorded.cost",
            "What all sessions on record cost, reservations included.",
            [({}, sum(row.cost_usd for row in rows))],
            unit="USD",
        ),
    ]
    return [*found, *_fleet_metrics(await fleet(config))] if config.store_url else found


def _fleet_metrics(found: WorkerFleet) -> list[CountedMetric]:
    workers = Counter((each.queue, each.state) for each in found.workers)
    sessions = Counter((each.queue, each.place) for each in found.sessions)
    longest: dict[str, float] = {}
    for each in found.sessions:
        longest[each.queue] = max(longest.get(each.queue, 0.0), each.waits_s)
    return [
        gauge(
            "mainspring.workers",
            "Workers that were heard of today, by queue and state.",
            (({"queue": queue, "state": state}, count) for (queue, state), count in sorted(workers.items())),
        ),
        gauge(
            "mainspring.queue.sessions",
            "Sessions in queues, by where they stand.",
            (({"queue": queue, "state": state}, count) for (queue, state), count in sorted(sessions.items())),
        ),
        gauge(
            "mainspring.queue.lag",
            "How long the longest waiting session waits for a worker.",
            (({"queue": queue}, seconds) for queue, seconds in sorted(longest.items())),
            unit="s",
        ),
    ]


class CountedSessions:
    """Counts what ends in all sessions from the first look on. A session is read when it has grown."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._first: dict[str, int] | None = None
        self._folds: dict[str, SpanFold] = {}
        self._counted = SpanMetrics()
        self._looking = asyncio.Lock()

    async def look(self, rows: Sequence[SessionRow]) -> list[CountedMetric]:
        async with self._looking:
            if self._first is None:
                self._first = {row.id: row.events for row in rows}
            for row in rows:
                fold = self._folds.get(row.id)
                if row.events > (self._first.get(row.id, 0) if fold is None else fold.state.seq):
                    await self._take(row, self._first.get(row.id, 0))
            gone = self._folds.keys() - {row.id for row in rows}
            for session in gone:
                del self._folds[session]
            return self._counted.metrics()

    async def _take(self, row: SessionRow, first: int) -> None:
        """What ended up to `first` did so before anybody counted."""
        fold = self._folds.setdefault(row.id, SpanFold(row.id))
        try:
            async for spans in folded(sessions_of(self._config), row.id, fold):
                self._counted.take(each for each in spans if each.seq > first)
        except JournalError:
            pass  # the list of sessions says that it is damaged
        fold.state.seq = max(fold.state.seq, row.events)

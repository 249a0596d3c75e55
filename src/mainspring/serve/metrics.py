"""`/metrics`: what Prometheus and its like read. Counters begin with the first time that somebody asks."""

from __future__ import annotations

from mainspring.app.operations.metrics import CountedSessions, standing_metrics
from mainspring.app.operations.questions import QuestionWatch
from mainspring.app.operations.sessions import list_sessions
from mainspring.serve.hub import Hub
from mainspring.settings import Config
from mainspring.telemetry.metrics import gauge
from mainspring.telemetry.prometheus import CONTENT_TYPE, prometheus_text

__all__ = ["CONTENT_TYPE", "ServerMetrics"]


class ServerMetrics:
    def __init__(self, config: Config, hub: Hub) -> None:
        self._config, self._hub = config, hub
        self._counted = CountedSessions(config)
        self._watch = QuestionWatch(config)

    async def text(self) -> str:
        rows = await list_sessions(self._config)
        here = gauge(
            "mainspring.sessions.here", "Sessions that this server runs.", [({}, len(self._hub.running))]
        )
        standing = await standing_metrics(self._config, rows, self._watch)
        return prometheus_text([*await self._counted.look(rows), *standing, here])

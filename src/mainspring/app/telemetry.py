"""Sends what is new in journals to the collector that the settings name, for as long as they name one.

How far each session was sent is kept beside its journal, once a collector has it: so it goes on where it
stopped, and what a crash makes it send twice has the same ids. What happened before it was switched on stays
here. One process of all that share a store sends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from mainspring.app.operations.daemon_telemetry import SINCE
from mainspring.app.operations.metrics import standing_metrics
from mainspring.app.operations.questions import QuestionWatch
from mainspring.app.operations.traces import SPANS_AT_ONCE, Cleaner, collector_of, folded, state_of
from mainspring.app.stores import sessions_of, shared_files
from mainspring.catalog import SessionRow
from mainspring.errors import JournalError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.settings import Config, load_config
from mainspring.telemetry.fold import SpanFold
from mainspring.telemetry.metrics import SpanMetrics
from mainspring.telemetry.otlp import metric_request, trace_request
from mainspring.telemetry.sender import Collector, NotTaken
from mainspring.telemetry.spans import ROOT, TraceSpan

_METRICS_S = 60.0
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 300.0
_CURSOR = "spans.json"


class _Since(msgspec.Struct, frozen=True):
    since_us: int


class TraceSender:
    """What is new since it was switched on, a pass at a time."""

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        self._config, self._say = config, say
        self._store = sessions_of(config)
        self._collector: Collector = collector_of(config)
        self._has_content = config.settings.telemetry.content
        self._sent: dict[str, int] = {}
        self._counted, self._began_us = SpanMetrics(), _now_us()
        self._watch = QuestionWatch(config)
        self._since_us = _switched_on(config)
        self._spans: list[TraceSpan] = []
        self._cursors: dict[str, tuple[int, bytes]] = {}
        self._measured_s, self._measure_problem = -_METRICS_S, ""

    @property
    def place(self) -> str:
        return self._collector.place

    async def send_new(self) -> int:
        """Sends what is new; gives how many spans that were. `NotTaken` when it has to be tried again: what
        was taken before that is not sent again."""
        rows, sent = await self._store.rows(), 0
        self._spans, self._cursors = [], {}
        for row in reversed(rows):
            if row.updated_us >= self._since_us and self._sent.get(row.id, -1) < row.events:
                sent += await self._read(row)
        sent += await self._flush()
        await self._measure(rows)
        return sent

    async def _read(self, row: SessionRow) -> int:
        sent = 0
        kept = state_of(self._store.files(row.id).read(_CURSOR))
        fold = SpanFold(row.id, kept, has_content=self._has_content)
        clean = Cleaner(self._config, self._store, row.id)
        try:
            async for spans in folded(self._store, row.id, fold):
                # The span that all others are below goes along, whenever it was.
                self._spans += [
                    clean.span(each) for each in spans if each.key == ROOT or each.end_us >= self._since_us
                ]
                if len(self._spans) >= SPANS_AT_ONCE:
                    self._cursors[row.id] = (0, msgspec.json.encode(fold.state))
                    sent += await self._flush()
        except JournalError as error:
            self._say(f"telemetry: {row.id} cannot be read: {error.message}")
        self._cursors[row.id] = (row.events, msgspec.json.encode(fold.state))
        return sent

    async def _flush(self) -> int:
        """Sends what was read, and keeps how far that was."""
        spans, cursors = self._spans, self._cursors
        self._spans, self._cursors = [], {}
        if spans:
            try:
                if said := await self._collector.send("traces", trace_request(spans)):
                    self._say(f"telemetry: the collector says: {said}")
            except NotTaken as error:
                if not error.is_lost:
                    raise
                self._say(f"telemetry: {len(spans)} spans are lost: {error.message}")
        for session, (events, state) in cursors.items():
            self._store.files(session).write(_CURSOR, state)
            if events:
                self._sent[session] = events
        self._counted.take(spans)
        return len(spans)

    async def _measure(self, rows: list[SessionRow]) -> None:
        if time.monotonic() - self._measured_s < _METRICS_S:
            return
        standing = await standing_metrics(self._config, rows, self._watch)
        body = metric_request([*self._counted.metrics(), *standing], self._began_us, _now_us())
        self._measured_s, said = time.monotonic(), ""
        try:
            await self._collector.send("metrics", body)
        except NotTaken as error:  # the next ones have all that these had
            said = f"telemetry: metrics were not taken: {error.message}"
        if said and said != self._measure_problem:
            self._say(said)
        self._measure_problem = said


async def send_until_changed(config: Config, say: Callable[[str], None]) -> None:
    """Sends for as long as the settings stay as they are; what cannot be sent now waits."""
    settings = config.settings.telemetry
    sender, pause_s, problem = TraceSender(config, say), _FIRST_PAUSE_S, ""
    say(f"telemetry: sent to {sender.place}, {'with' if settings.content else 'without'} texts")
    while load_config(config.environment, is_config_optional=True).settings.telemetry == settings:
        try:
            await sender.send_new()
        except NotTaken as error:
            if error.message != problem:
                say(f"telemetry: {error.message} It is tried again.")
            problem = error.message
            await asyncio.sleep(max(pause_s, error.wait_s))
            pause_s = min(pause_s * 2, _MAX_PAUSE_S)
            continue
        if problem:
            say("telemetry: what waited was sent")
        problem, pause_s = "", _FIRST_PAUSE_S
        await asyncio.sleep(settings.every_s)


def _switched_on(config: Config) -> int:
    """Since when there is something to send."""
    files = shared_files(config)
    try:
        return msgspec.json.decode(files.read(SINCE) or b"", type=_Since).since_us
    except DECODE_ERRORS:
        began = _Since(_now_us())
        files.write(SINCE, msgspec.json.encode(began))
        return began.since_us


def _now_us() -> int:
    return time.time_ns() // 1000

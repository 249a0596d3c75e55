"""Traces of sessions, made anew from their journals whenever somebody asks for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import date

import msgspec

from mainspring.app.operations.cost import UnreadableSession
from mainspring.app.records import vault_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow, Sessions, local_day, reading
from mainspring.errors import JournalError, UsageError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.journal import events_in
from mainspring.secrets.variables import fill_variables
from mainspring.secrets.vault import Vault
from mainspring.settings import Config
from mainspring.telemetry.fold import FOLDED, SpanFold, SpanState
from mainspring.telemetry.otlp import trace_request
from mainspring.telemetry.sender import Collector
from mainspring.telemetry.spans import Attributes, TraceSpan

SPANS_AT_ONCE = 500
"""How many spans one request has at most, but for what ends with one event."""


class TracesWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions: named ones with the agents that worked for them, or all that changed since a day."""

    sessions: tuple[str, ...] = ()
    since: str = ""
    has_content: bool = False


class TracesExported(msgspec.Struct, frozen=True, kw_only=True):
    """What was handed over; `said` is what a collector had to say about it."""

    sessions: int
    spans: int
    said: tuple[str, ...] = ()
    unreadable: tuple[UnreadableSession, ...] = ()


async def export_traces(
    config: Config, wanted: TracesWanted, *, to: str = "", write: Callable[[bytes], object] | None = None
) -> TracesExported:
    """Gives each request to `write`, and sends it to `to`; `NotTaken` when that is not possible. Doing it
    again gives the same spans with the same ids."""
    store = sessions_of(config)
    collector = collector_of(config, to) if to else None
    rows = _chosen(await store.rows(), wanted, [await store.find(name) for name in wanted.sessions])
    spans, said, unreadable = 0, list[str](), list[UnreadableSession]()
    for row in rows:
        try:
            async for found in session_spans(config, store, row.id, has_content=wanted.has_content):
                body = trace_request(found)
                spans += len(found)
                if write is not None:
                    write(body)
                if collector is not None and (answer := await collector.send("traces", body)):
                    said.append(answer)
        except JournalError as error:
            unreadable.append(UnreadableSession(row.id, error.message))
    return TracesExported(
        sessions=len(rows), spans=spans, said=tuple(dict.fromkeys(said)), unreadable=tuple(unreadable)
    )


async def session_spans(
    config: Config, store: Sessions, session: str, *, has_content: bool
) -> AsyncGenerator[list[TraceSpan]]:
    """All spans of a session that have ended, so many at a time."""
    fold, clean = SpanFold(session, has_content=has_content), Cleaner(config, store, session)
    found = list[TraceSpan]()
    async for page in folded(store, session, fold):
        found += map(clean.span, page)
        if len(found) >= SPANS_AT_ONCE:
            yield found
            found = list[TraceSpan]()
    if found:
        yield found


async def folded(
    store: Sessions, session: str, fold: SpanFold, until: int | None = None
) -> AsyncGenerator[Sequence[TraceSpan]]:
    """The spans that end with each event after those that the fold knows."""
    async with reading(store, session) as journal:
        async for recorded in events_in(journal, kinds=FOLDED, after=fold.state.seq, until=until):
            yield fold.take(recorded)


def collector_of(config: Config, url: str = "") -> Collector:
    """Where traces are sent: an address that somebody gave, or that of the settings. The headers of the
    settings are for their own address, and go to no other."""
    settings = config.settings.telemetry
    url = url or settings.otlp_url
    if not url.startswith(("http://", "https://")):
        raise UsageError(
            f"{url!r} is no address of a collector.", remedy="Write it like http://localhost:4318."
        )
    headers: Mapping[str, str] = {}
    if url == settings.otlp_url:
        filled, missing = fill_variables({"headers": settings.headers}, config.key_environment)
        if missing:
            raise UsageError(
                f"A header of [telemetry] needs {', '.join(missing)}, which is not set.",
                remedy="Set the variable, or store a key of that name: mainspring keys add",
            )
        headers = filled["headers"]
    return Collector(url=url, environment=config.environment, headers=headers)


class Cleaner:
    """Hides secrets in spans once more, whatever their journal passed before."""

    def __init__(self, config: Config, store: Sessions, session: str) -> None:
        self._vault: Vault = vault_of(store, session, config)

    def span(self, span: TraceSpan) -> TraceSpan:
        events = tuple(
            msgspec.structs.replace(each, attributes=self._clean(each.attributes)) for each in span.events
        )
        return msgspec.structs.replace(
            span, name=self._vault.redact(span.name), attributes=self._clean(span.attributes), events=events
        )

    def _clean(self, attributes: Attributes) -> Attributes:
        return {
            name: self._vault.redact(value) if isinstance(value, str) else value
            for name, value in attributes.items()
        }


def state_of(data: bytes | None) -> SpanState | None:
    """A state that was kept; None when there is none, or none that this version can read."""
    try:
        return msgspec.json.decode(data, type=SpanState) if data else None
    except DECODE_ERRORS:
        return None


def _chosen(rows: Sequence[SessionRow], wanted: TracesWanted, named: Sequence[str]) -> list[SessionRow]:
    if not named:
        _check_day(wanted.since)
        return [row for row in reversed(rows) if local_day(row.updated_us) >= wanted.since]
    chosen = dict.fromkeys(named)
    children: dict[str, list[str]] = {}
    for row in rows:
        if row.agent:
            children.setdefault(row.parent, []).append(row.id)
    for session in (waiting := list(chosen)):
        waiting += children.get(session, ())
    chosen |= dict.fromkeys(waiting)
    return [row for row in reversed(rows) if row.id in chosen]


def _check_day(text: str) -> None:
    try:
        is_day = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_day = False
    if not is_day:
        raise UsageError(
            f"{text!r} is not a day." if text else "Which sessions?",
            remedy="Name sessions, or a day: --since 2026-01-31.",
        )

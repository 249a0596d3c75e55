"""Journals written by hand, and the report of one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.documents.html import as_html
from mainspring.documents.markdown import as_markdown
from mainspring.events import Event, GoalSet, IterationEnded, IterationStarted, Recorded, SessionStarted
from mainspring.journal.sqlite import SqliteJournal
from mainspring.report.facts import Report
from mainspring.report.iterations import Iterations
from mainspring.report.layout import layout, title_of
from mainspring.report.reader import read_report

START = SessionStarted(session="s1", workspace="/w", version="1")
NOW_US = 4_000_000_000_000_000


def iteration(number: int, *events: Event, outcome: str = "continued") -> list[Event]:
    ended = IterationEnded(iteration=number, outcome=outcome)  # pyright: ignore[reportArgumentType]
    return [IterationStarted(iteration=number), *events, ended]


def report_of(
    folder: Path, *events: Event, goal: GoalSet | None = None, kept: dict[str, bytes] | None = None
) -> Report:
    """The report of a journal with these events after the goal was set; `kept` are blobs to put in it."""

    async def reporting() -> Report:
        journal = await written(folder, goal or GoalSet(text="Make it"), *events, kept=kept)
        try:
            return await read_report(journal, now_us=NOW_US, is_running=False)
        finally:
            await journal.close()

    return asyncio.run(reporting())


async def written(folder: Path, *events: Event, kept: dict[str, bytes] | None = None) -> SqliteJournal:
    journal = await SqliteSessions(folder).create("s1")
    for media_type, data in (kept or {}).items():
        await journal.put(data, media_type)
    await journal.append(START, *events)
    return journal


def page(report: Report) -> str:
    return "".join(as_html(title_of(report), layout(report)))


def text(report: Report) -> str:
    return "".join(as_markdown(layout(report)))


def timed(*events: tuple[float, Event]) -> Iterations:
    """The fold of events at these seconds."""
    iterations = Iterations()
    for seq, (at_s, event) in enumerate(events, 1):
        iterations.apply(Recorded(seq, int(at_s * 1e6) + 1, event))
    return iterations

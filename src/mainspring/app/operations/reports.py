"""The report of a goal: its facts, and as a page or as Markdown."""

from __future__ import annotations

import time

from mainspring.app.operations.evidence import changes_section, evidence_of
from mainspring.app.operations.sessions import journal_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import running
from mainspring.documents.html import as_html
from mainspring.documents.markdown import as_markdown
from mainspring.report.facts import Report
from mainspring.report.layout import layout, title_of
from mainspring.report.reader import read_report
from mainspring.settings import Config


async def goal_report(config: Config, session: str) -> Report:
    """What there is to tell about a goal, while it runs as well, read without owning its journal."""
    async with journal_of(config, session) as reader:
        is_running = await running(sessions_of(config), reader.session) is not None
        return await read_report(reader, now_us=time.time_ns() // 1000, is_running=is_running)


async def report_page(config: Config, report: Report) -> str:
    """One HTML page that needs nothing else, with what changed as a diff in the colours of its evidence."""
    changes = changes_section(await evidence_of(config, report.session))
    return "".join(as_html(title_of(report), layout(report, changes)))


def report_markdown(report: Report) -> str:
    return "".join(as_markdown(layout(report)))

"""The report of a goal, written where it is wanted."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import msgspec

from mainspring.app.goals import load_report
from mainspring.cli.transfer import written
from mainspring.goals.report.facts import Report
from mainspring.goals.report.html import as_html
from mainspring.goals.report.layout import layout, title_of
from mainspring.goals.report.markdown import as_markdown
from mainspring.journal.store import Store

_STDOUT = "-"


def write_report(store: Store, session: str, *, html: str, markdown: str, is_json: bool) -> None:
    """As a page, as Markdown, as JSON, or several of them; as Markdown to the terminal when none is named."""
    report = asyncio.run(load_report(store, session))
    if is_json:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.flush()
    if html:
        _write(html, "".join(as_html(title_of(report), layout(report))))
    if markdown or not (html or is_json):
        _write(markdown or _STDOUT, _markdown(report))


def _markdown(report: Report) -> str:
    return "".join(as_markdown(layout(report)))


def _write(to: str, text: str) -> None:
    with written(None if to == _STDOUT else Path(to)) as file:
        file.write(text.encode("utf-8", "replace"))
    if to != _STDOUT:
        click.echo(f"written to {to}", err=True)

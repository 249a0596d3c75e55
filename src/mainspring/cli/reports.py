"""The report of a goal, written where it is wanted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from mainspring.app.operations.reports import goal_report, report_markdown, report_page
from mainspring.cli.json_output import json_line
from mainspring.cli.output_file import written
from mainspring.settings import Config

_STDOUT = "-"


def write_report(config: Config, session: str, *, html: str, markdown: str, is_json: bool) -> None:
    """As a page, as Markdown, as JSON, or several of them; as Markdown to the terminal when none is named."""
    report = asyncio.run(goal_report(config, session))
    if is_json:
        click.echo(json_line(report))
    if html:
        _write(html, asyncio.run(report_page(config, report)))
    if markdown or not (html or is_json):
        _write(markdown or _STDOUT, report_markdown(report))


def _write(to: str, text: str) -> None:
    with written(None if to == _STDOUT else Path(to)) as file:
        file.write(text.encode("utf-8", "replace"))
    if to != _STDOUT:
        click.echo(f"written to {to}", err=True)

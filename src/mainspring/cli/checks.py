"""`checks`: what was checked of the files that a session changed, and what was found."""

from __future__ import annotations

import asyncio

import click

from mainspring.app.operations.checks import ChecksOverview, checks_of
from mainspring.cli.config import load_config_or_defaults, newest_here
from mainspring.cli.json_output import json_line
from mainspring.documents.findings import line_of
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain


@click.command("checks")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def checks_command(session: str, *, is_json: bool) -> None:
    """List what checks find in the files that SESSION (by default the newest of this folder) changed and that
    was not there before. The exit code is 1 when an error stands."""
    config = load_config_or_defaults()
    found = asyncio.run(checks_of(config, session or newest_here(config)))
    for line in [json_line(found)] if is_json else _lines(found):
        click.echo(line if is_json else plain(line))
    if any(each.severity == "error" for file in found.files for each in file.findings):
        raise SystemExit(1)


def _lines(found: ChecksOverview) -> list[str]:
    if not found.rounds:
        return ["Nothing was checked: no file was changed that a check knows, or checks are off."]
    lines = [line_of(file.path, each) for file in found.files for each in file.findings]
    clean = [f"{file.path}: clean ({', '.join(file.by)})" for file in found.files if not file.findings]
    left = [f"not checked: {each}" for each in found.not_checked]
    took = f"{plural(len(found.files), 'file')} checked in {found.duration_s:.2f} s"
    times = [f"  {each.by:<16}{each.duration_s:9.3f} s" for each in found.times]
    cost = [f"reviews: ${found.cost_usd:.4f}; other checks cost nothing"] if found.cost_usd else []
    return [*lines, *clean, *left, *_reached(found), took, *times, *cost]


def _reached(found: ChecksOverview) -> list[str]:
    """What tests run, where that was measured."""
    if not found.lines:
        return []
    share = f"{100 * found.reached / found.lines:.1f} % of {plural(found.lines, 'line')}"
    untested = (
        "" if found.untested is None else f"; {plural(found.untested, 'changed line')} that no test runs"
    )
    return [f"tests run {share}{untested}"]

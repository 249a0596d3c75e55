"""`evidence`: which lines of what a session changed were tested, checked, reviewed or run since."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from mainspring.app.operations.evidence import SessionEvidence, evidence_of, evidence_page
from mainspring.cli.config import load_config_or_defaults, newest_here
from mainspring.cli.json_output import json_line
from mainspring.cli.output_file import written
from mainspring.secrets.screen import plain

_MARKS = {"covered": "ok", "against": "!!", "uncovered": "??", "context": "  "}


@click.command("evidence")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
@click.option("--html", default="", metavar="FILE", help="Write a page with a coloured diff; - prints it.")
def evidence_command(session: str, html: str, *, is_json: bool) -> None:
    """Show which changed lines of SESSION (by default the newest of this folder) have evidence after their
    last change: tests, linters, type checkers, reviews, commands. `ok` has some, `??` has none, `!!` has
    something against it. The exit code is 1 when a line has none, or something against it."""
    config = load_config_or_defaults()
    found = asyncio.run(evidence_of(config, session or newest_here(config)))
    if html:
        with written(None if html == "-" else Path(html)) as file:
            file.write(evidence_page(found).encode("utf-8", "replace"))
    if is_json:
        click.echo(json_line(found))
    elif not html:
        for line in _lines(found):
            click.echo(plain(line))
    if found.uncovered or found.against:
        raise SystemExit(1)


def _lines(found: SessionEvidence) -> list[str]:
    if not found.files:
        return ["No files were changed."]
    lines: list[str] = []
    for file in found.files:
        steps = ", ".join(f"step {each.step} (event {each.seq})" for each in file.edits)
        lines.append(f"== {file.path}: {file.problem or f'changed by {steps}'}")
        lines += [
            f"   {'+' if fact.is_good else '-'} {fact.kind}: {fact.text} (event {fact.seq})"
            for fact in file.facts
        ]
        for each in file.lines:
            by = f"  [{', '.join(each.by)}]" if each.by else ""
            lines.append(f"{_MARKS[each.state]} {each.number:>5} {each.mark}{each.text}{by}")
    total = f"{found.covered} lines covered, {found.against} with something against them"
    return [*lines, f"{total}, {found.uncovered} without evidence"]

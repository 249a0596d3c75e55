"""`impact`: what a change reaches, before anybody runs anything."""

from __future__ import annotations

from pathlib import Path

import click

from mainspring.app.operations.impact import Impact, look_at_impact
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain

_SHOWN = 40


@click.command("impact")
@click.argument("paths", nargs=-1)
@click.option("--since", default="", metavar="REF", help="Compare with this commit instead of HEAD.")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def impact_command(paths: tuple[str, ...], since: str, *, is_json: bool) -> None:
    """Show what the changed Python files of this repository, or PATHS, reach: public API with a hint for the
    version, callers, importers and tests. Nothing is run."""
    found = look_at_impact(load_config_or_defaults(), Path.cwd(), paths, since)
    for line in [json_line(found)] if is_json else _lines(found):
        click.echo(line if is_json else plain(line))


def _lines(found: Impact) -> list[str]:
    if not found.changed and not found.not_read:
        return ["Nothing has changed."]
    api = [
        f"{each.change} {each.path}:{each.line} {each.name} [{each.semver}] {each.why}".rstrip()
        for each in found.api
    ]
    callers = [f"{each.path}:{each.line} uses {each.name}" for each in found.callers]
    return [
        *_section("changed", found.changed),
        *_section("public API", api),
        *_section("callers", callers),
        *_section("importers", found.importers),
        *_section("tests", found.tests),
        *_section("not looked at", found.not_read),
        f"{found.reached} files are reached by imports; the version needs at least: {found.semver}",
    ]


def _section(title: str, lines: tuple[str, ...] | list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return [f"{title}:", *(f"  {line}" for line in lines[:_SHOWN]), *more]

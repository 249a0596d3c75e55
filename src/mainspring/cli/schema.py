"""`schema`: the JSON Schema of what `run --input-format jsonl --json` reads and writes."""

from __future__ import annotations

import json

import click

from mainspring.app.operations.control import control_schema


@click.command("schema")
@click.argument("side", type=click.Choice(["output", "input"]), default="output")
def schema_command(side: str) -> None:
    """Print the JSON Schema of one line of `run --input-format jsonl --json`: of its output, or its input."""
    click.echo(json.dumps(control_schema(side), indent=2))

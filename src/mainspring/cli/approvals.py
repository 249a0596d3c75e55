"""`approvals`: the grants that people gave, the rules in force, and what they say or would have said."""

from __future__ import annotations

import asyncio
import shlex
import time
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from mainspring.app.modes import MODE_NAMES
from mainspring.app.operations.answers import reach
from mainspring.app.operations.approvals import (
    Comparison,
    Effect,
    Grant,
    Rule,
    counts,
    in_words,
    judge_call,
    judge_command,
    judge_line,
    judge_session,
    list_grants,
    revoke_grant,
    rules_in_force,
)
from mainspring.cli.config import load_config
from mainspring.cli.json_output import json_line
from mainspring.cli.options import POSITIVE
from mainspring.documents.figures import when
from mainspring.secrets.screen import plain

_mode = click.option("--mode", type=click.Choice(MODE_NAMES), help="Judge as in this mode.")
_cap = click.option("--max-cost-usd", type=POSITIVE, help="The budget that some modes need.")
_folder = click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The workspace."
)


@click.group("approvals")
def approvals_command() -> None:
    """Grants and rules: what may run without asking, and why."""


@approvals_command.command("list")
@click.option("--json", "is_json", is_flag=True, help="Print one grant per line as JSON.")
def list_command(*, is_json: bool) -> None:
    """List the grants: scope, what they cover, when they end."""
    grants = list_grants(load_config())
    for grant in grants:
        click.echo(json_line(grant) if is_json else plain(_granted(grant)))
    if not grants and not is_json:
        click.echo("No grants. An answer like `always` to a question gives one.", err=True)


@approvals_command.command("revoke")
@click.argument("grant_id", metavar="ID")
def revoke_command(grant_id: str) -> None:
    """Take a grant back; it counts at once, also in sessions that run."""
    revoke_grant(load_config(), grant_id)
    click.echo(f"revoked {grant_id}")


@approvals_command.command("rules")
@_folder
def rules_command(folder: Path) -> None:
    """Show which rules are in force here, and from which file."""
    found = rules_in_force(load_config(), folder)
    for file in found.files:
        click.echo(f"{file.source}: {plain(str(file.path))}" + ("" if file.rules else " (no rules)"))
        for number, rule in enumerate(file.rules, 1):
            is_void = file.source == "project" and rule.answer == "allow"
            note = " (has no effect: a project can only tighten)" if is_void else ""
            click.echo(plain(f"  {rule.name or number}: {_rule(rule)}{note}"))
        for warning in file.warnings:
            click.echo(plain(f"  note: {warning}"))
    for name, says in found.team:
        click.echo(plain(f"team: {name}: {says}"))
    click.echo("builtin:")
    for danger in found.dangers:
        click.echo(f"  {danger.name}: {danger.answer}: {danger.reason}")


@approvals_command.command("check")
@click.argument("command")
@_mode
@_cap
@_folder
@click.option("--template", default="", help="Judge it as `exec` with this template ([steps.NAME]).")
@click.option("--tool", default="", help="Judge a call of this tool; COMMAND is its arguments as JSON.")
@click.option("--effect", type=click.Choice(get_args(Effect)), default="execute", help="What the tool does.")
@click.option("--uncontained", is_flag=True, help="Judge as with --sandbox none.")
def check_command(
    command: str,
    mode: str | None,
    max_cost_usd: float | None,
    folder: Path,
    template: str,
    tool: str,
    effect: Effect,
    *,
    uncontained: bool,
) -> None:
    """Say whether COMMAND, a line of shell, would be allowed, and why. Nothing is run.

    With --template, every command in it is judged as a step, as `mainspring exec` runs one. With --tool,
    it is the arguments of a call: '{"operation": "delete"}'.
    """
    given: dict[str, Any] = {
        "folder": folder,
        "mode": mode or "",
        "max_cost_usd": max_cost_usd,
        "is_contained": not uncontained,
    }
    if tool:
        verdict = judge_call(load_config(), tool, _arguments(command), effect=effect, **given)
    elif template:
        verdict = judge_line(load_config(), _closed(command), template=template, **given)
    else:
        verdict = judge_command(load_config(), command, **given)
    click.echo(plain(f"{verdict.answer}: {verdict.reason} [{verdict.rule}]"))
    for finding in verdict.findings:
        click.echo(plain(f"  {finding.answer}: {finding.subject}: {finding.reason} [{finding.rule}]"))
    if verdict.answer == "ask" and verdict.quorums:
        click.echo(plain(f"  a yes takes {in_words(verdict.quorums)}"))


@approvals_command.command("simulate")
@click.argument("session")
@_mode
@_cap
def simulate_command(session: str, mode: str | None, max_cost_usd: float | None) -> None:
    """Judge the calls of SESSION again by today's rules, grants and mode. Nothing is run."""
    judging = judge_session(load_config(), session, mode=mode or "", max_cost_usd=max_cost_usd)
    compared = asyncio.run(judging)
    for each in compared:
        click.echo(plain(_compared(each)))
    for (before, now), number in sorted(counts(compared).items()):
        click.echo(f"{number} {before} → {now}")


def _closed(command: str) -> str:
    try:
        shlex.split(command)
    except ValueError as error:
        raise click.BadParameter(f"{command!r} cannot be split into words: {error}.") from error
    return command


def _arguments(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise click.BadParameter(f"{text!r} is not a JSON object: {error}.") from error


def _compared(each: Comparison) -> str:
    mark = "≠" if each.is_changed else "="
    proposed = each.past.proposed
    what = proposed.command or ", ".join(proposed.paths) or proposed.tool
    is_shared = each.now.answer == "ask" and each.now.quorums
    takes = f"; a yes takes {in_words(each.now.quorums)}" if is_shared else ""
    return (
        f"{mark} {each.past.answered:<5} → {each.now.answer:<5} {proposed.tool}:"
        f" {what.splitlines()[0]} [{each.now.rule}] {each.now.reason}{takes}"
    )


def _granted(grant: Grant) -> str:
    bound = {"session": f" {grant.session}", "project": f" {grant.workspace}"}.get(grant.scope, "")
    is_over = grant.expires_us is not None and grant.expires_us <= time.time_ns() // 1000
    ends = "" if grant.expires_us is None else f", {'ended' if is_over else 'until'} {when(grant.expires_us)}"
    return f"{grant.id}  {grant.scope}{bound}  {reach(grant.tool, grant)}{ends}  by {grant.by}"


def _rule(rule: Rule) -> str:
    said: dict[str, Any] = msgspec.to_builtins(rule)
    parts = [
        f"{name} {said[name]}"
        for name in (
            "tool",
            "effect",
            "command",
            "path",
            "host",
            "arguments",
            "cost_over_usd",
            "cost_up_to_usd",
        )
        if said[name]
    ]
    accepts = f", accepting {', '.join(rule.accepts)}" if rule.accepts else ""
    reason = f": {rule.reason}" if rule.reason else ""
    return f"{rule.answer} {', '.join(parts) or 'everything'}{accepts}{reason}"

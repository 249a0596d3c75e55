"""`policy`: what a team's policy says to whom, and why; signing one, and putting it in force."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from mainspring.app.operations.policy import (
    PolicyQuestion,
    ShownPolicy,
    ask_policies,
    set_policy,
    show_policies,
    sign_policy,
)
from mainspring.cli.config import load_config
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain

_folder = click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The folder."
)
_as = click.option(
    "--as",
    "person",
    default="",
    metavar="NAME",
    help="For this person, not for you: local:ada.",
)
_json = click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
_file = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))


@click.group("policy", invoke_without_command=True)
@click.pass_context
def policy_command(context: click.Context) -> None:
    """Who may do what in a team: roles, projects, and rules that everybody is held to.

    Without a command it shows what is in force here.
    """
    if context.invoked_subcommand is None:
        context.invoke(show_command)


@policy_command.command("show")
@_folder
@_as
@_json
def show_command(folder: Path, person: str, *, is_json: bool) -> None:
    """Show who you are, your role in this folder, and which rules hold for you."""
    found = show_policies(load_config(), folder, person)
    if is_json:
        click.echo(json_line(found))
        return
    click.echo(plain(f"{found.person.name} ({found.person.known_by})"))
    for each in found.policies:
        _show(each)
    if not found.policies:
        click.echo("No policy of a team is in force: whoever works at this machine may do everything here.")


@policy_command.command("check")
@click.argument("operation", nargs=-1, required=True)
@_folder
@_as
@click.option("--claim", "claims", multiple=True, help="A group that the issuer names for them.")
@click.option("--mode", default="", help="In this mode.")
@click.option("--model", default="", help="With this model.")
@click.option("--tool", default="", help="With this tool.")
@click.option("--host", default="", help="Reaching this host.")
@click.option(
    "--file",
    "draft",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="By this policy, which need not be signed or in force.",
)
@_json
def check_command(
    operation: tuple[str, ...],
    folder: Path,
    person: str,
    claims: tuple[str, ...],
    mode: str,
    model: str,
    tool: str,
    host: str,
    draft: Path | None,
    *,
    is_json: bool,
) -> None:
    """Say whether OPERATION, such as `run` or `goal start`, may be done, and which rule says so.

    The exit code is 3 when it may not. `mainspring approvals check` says it of a command line.
    """
    asked = PolicyQuestion(
        operation=" ".join(operation),
        folder=str(folder.resolve()),
        person=person,
        claims=claims,
        mode=mode,
        model=model,
        tool=tool,
        host=host,
    )
    answer = ask_policies(load_config(), asked, draft)
    if is_json:
        click.echo(json_line(answer))
    else:
        said = "allowed" if answer.is_allowed else f"refused: {answer.reason}"
        click.echo(plain(f"{said} [{answer.rule}]"))
        for each in answer.approvals:
            click.echo(plain(f"  {'; '.join(each.says)} [{each.name}]"))
        for cap in answer.caps:
            click.echo(plain(f"  at most {cap.words} [{cap.rule}]"))
    sys.exit(0 if answer.is_allowed else 3)


@policy_command.command("sign")
@_file
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), help="The key; made when there is none."
)
def sign_command(file: Path, key: Path | None) -> None:
    """Sign FILE, a policy, so that machines take it. The key is `policy.key` beside your settings."""
    click.echo(f"signed by {sign_policy(load_config(), file, key)}")


@policy_command.command("set")
@_file
def set_command(file: Path) -> None:
    """Put FILE, a signed policy, in force for all who share the database."""
    made = asyncio.run(set_policy(load_config(), file))
    click.echo(plain(f"number {made.policy.serial} is in force for all who share {made.place}"))


def _show(each: ShownPolicy) -> None:
    click.echo(plain(f"policy of {each.place}, number {each.serial}, signed by {each.signer}"))
    if each.note:
        click.echo(plain(f"  {each.note}"))
    where = f"in project {each.project}" if each.project else "in no project"
    click.echo(plain(f"  this folder is {where}; your role is {each.role or 'none'} ({each.role_from})"))
    for rule in each.rules:
        why = f" ({rule.reason})" if rule.reason else ""
        click.echo(plain(f"  rule {rule.name}: {'; '.join(rule.says)}{why}"))
    for approval in each.approvals:
        click.echo(plain(f"  approval {approval.name}: {'; '.join(approval.says)}"))

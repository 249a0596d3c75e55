"""`approvals`: the grants that people gave, the rules in force, and what they say or would have said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from mainspring.app import policies
from mainspring.app.building import DEFAULT_TOOLS
from mainspring.app.policies import DEFAULT_MODE
from mainspring.approvals import LEVELS, MODES, Answer, Finding, Policy, Proposed
from mainspring.approvals.dangerous import DANGERS
from mainspring.approvals.grants import Grant, GrantFile
from mainspring.approvals.rules import Rule, load
from mainspring.approvals.screen import plain
from mainspring.approvals.simulate import PastCall, counts, simulate
from mainspring.cli.answers import reach
from mainspring.cli.numbers import POSITIVE
from mainspring.cli.render import when
from mainspring.config import Config, load_config
from mainspring.errors import UsageError
from mainspring.events import (
    ApprovalAsked,
    AssistantSaid,
    CallEnded,
    Event,
    Limits,
    ModeChosen,
    SandboxChosen,
    SessionStarted,
    TurnStarted,
)
from mainspring.journal.shelf import Shelf
from mainspring.sandbox.files import Files
from mainspring.tools import Output
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.calls import proposed_of

_KINDS = (
    "SessionStarted",
    "ModeChosen",
    "SandboxChosen",
    "TurnStarted",
    "AssistantSaid",
    "ApprovalAsked",
    "CallEnded",
)

_mode = click.option("--mode", type=click.Choice([*MODES, *LEVELS]), help="Judge as in this mode.")
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
    grants = GrantFile(load_config().home).all()
    for grant in grants:
        click.echo(msgspec.json.encode(grant) if is_json else plain(_granted(grant)))
    if not grants and not is_json:
        click.echo("No grants. An answer like `always` to a question gives one.", err=True)


@approvals_command.command("revoke")
@click.argument("grant_id", metavar="ID")
def revoke_command(grant_id: str) -> None:
    """Take a grant back; it counts at once, also in sessions that run."""
    if not GrantFile(load_config().home).revoke(grant_id):
        raise UsageError(f"There is no grant {grant_id}.", remedy="`mainspring approvals list` shows them.")
    click.echo(f"revoked {grant_id}")


@approvals_command.command("rules")
@_folder
def rules_command(folder: Path) -> None:
    """Show which rules are in force here, and from which file."""
    config = load_config()
    home = config.variable("HOME") or "/"
    for source, path in zip(("user", "project"), policies.rule_files(folder.resolve(), config), strict=True):
        rules = load(path, source=source, home=home).rules
        click.echo(f"{source}: {plain(str(path))}" + ("" if rules else " (no rules)"))
        for number, rule in enumerate(rules, 1):
            is_void = source == "project" and rule.answer == "allow"
            note = " (has no effect: a project can only tighten)" if is_void else ""
            click.echo(plain(f"  {rule.name or number}: {_rule(rule)}{note}"))
    click.echo("builtin:")
    for name, danger in DANGERS.items():
        click.echo(f"  {name}: {danger.answer}: {danger.reason}")


@approvals_command.command("check")
@click.argument("command")
@_mode
@_cap
@_folder
@click.option("--uncontained", is_flag=True, help="Judge as with --sandbox none.")
def check_command(
    command: str, mode: str | None, max_cost_usd: float | None, folder: Path, *, uncontained: bool
) -> None:
    """Say what would become of COMMAND, a line of shell, and why. Nothing is run."""
    config = load_config()
    policy = _policy(mode or config.settings.mode or DEFAULT_MODE, max_cost_usd, folder, config)
    proposed = Proposed(
        tool="shell",
        effect="execute",
        arguments={"command": command},
        command=command,
        workspace=str(folder.resolve()),
        is_contained=not uncontained,
    )
    verdict = policy.judge(proposed)
    click.echo(plain(f"{verdict.answer}: {verdict.reason} [{verdict.rule}]"))
    for finding in verdict.findings:
        click.echo(plain(f"  {_found(finding)}"))


@approvals_command.command("simulate")
@click.argument("session")
@_mode
@_cap
def simulate_command(session: str, mode: str | None, max_cost_usd: float | None) -> None:
    """Say what today's rules, grants and mode would have said to the calls of SESSION. Nothing is run."""
    config = load_config()
    past = _Past(config)
    shelf = Shelf(config.home)
    file = shelf.file(shelf.find(session))
    try:
        after = 0
        while page := file.read(after=after, kinds=_KINDS):
            for recorded in page:
                past.apply(recorded.event)
            after = page[-1].seq
    finally:
        file.close()
    policy = _policy(mode or past.mode, max_cost_usd or past.limits.max_cost_usd, past.workspace, config)
    compared = list(simulate(policy, past.calls()))
    for each in compared:
        mark = "≠" if each.is_changed else "="
        what = each.past.proposed.command or ", ".join(each.past.proposed.paths) or each.past.proposed.tool
        click.echo(
            plain(
                f"{mark} {each.past.answered:<5} → {each.now.answer:<5} {each.past.proposed.tool}:"
                f" {what.splitlines()[0]} [{each.now.rule}] {each.now.reason}"
            )
        )
    for (before, now), number in sorted(counts(compared).items()):
        click.echo(f"{number} {before} → {now}")


class _Past:
    """The calls of a session as they were proposed, and what was decided; a fold of its journal."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._toolbox = Toolbox(DEFAULT_TOOLS)
        self._answered: dict[str, tuple[Proposed, Answer]] = {}
        self._session = ""
        self._is_contained = True
        self.workspace = Path()
        self.mode = DEFAULT_MODE
        self.limits = Limits()

    def apply(self, event: Event) -> None:
        match event:
            case SessionStarted():
                self._session, self.workspace = event.session, Path(event.workspace)
            case ModeChosen():
                self.mode = event.level or event.mode
            case SandboxChosen():
                self._is_contained = event.rung != "none"
            case TurnStarted():
                self.limits = event.limits
            case AssistantSaid():
                self._propose(event)
            case ApprovalAsked():
                self._decide(event.call, "ask")
            case CallEnded(outcome="refused"):
                self._decide(event.call, "deny")
            case _:
                pass

    def calls(self) -> Iterator[PastCall]:
        return (PastCall(call, proposed, answer) for call, (proposed, answer) in self._answered.items())

    def _propose(self, said: AssistantSaid) -> None:
        mode, _ = policies.parse_mode(self.mode)
        files = Files(policies.confinement_of(self.workspace, mode, self._config))
        for asked in said.calls:
            prepared = self._toolbox.prepare(asked)
            if isinstance(prepared, Output):
                continue  # it never came as far as a decision
            proposed = proposed_of(
                prepared,
                files=files,
                workspace=self.workspace,
                session=self._session,
                is_contained=self._is_contained,
            )
            self._answered[asked.call] = proposed, "allow"

    def _decide(self, call: str, answer: Answer) -> None:
        proposed, before = self._answered.get(call, (None, "allow"))
        if proposed is not None and before == "allow":
            self._answered[call] = proposed, answer


def _policy(name: str, max_cost_usd: float | None, folder: Path, config: Config) -> Policy:
    mode, level = policies.parse_mode(name)
    limits = Limits(max_cost_usd=max_cost_usd)
    return policies.build_policy(policies.build_mode(mode, level, limits), folder.resolve(), config)


def _granted(grant: Grant) -> str:
    bound = {"session": f" {grant.session}", "project": f" {grant.workspace}"}.get(grant.scope, "")
    is_over = grant.expires_us is not None and grant.expires_us <= time.time_ns() // 1000
    ends = "" if grant.expires_us is None else f", {'ended' if is_over else 'until'} {when(grant.expires_us)}"
    return f"{grant.id}  {grant.scope}{bound}  {reach(grant.tool, grant)}{ends}  by {grant.by}"


def _rule(rule: Rule) -> str:
    said: dict[str, Any] = msgspec.to_builtins(rule)
    parts = [
        f"{name} {said[name]}"
        for name in ("tool", "effect", "command", "path", "host", "cost_over_usd", "cost_up_to_usd")
        if said[name]
    ]
    accepts = f", accepting {', '.join(rule.accepts)}" if rule.accepts else ""
    reason = f": {rule.reason}" if rule.reason else ""
    return f"{rule.answer} {', '.join(parts) or 'everything'}{accepts}{reason}"


def _found(finding: Finding) -> str:
    return f"{finding.answer}: {finding.subject}: {finding.reason} [{finding.rule}]"

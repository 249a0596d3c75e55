"""The grants that people gave, the rules in force, and what they say to a command or would have said."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app import policies
from mainspring.app.arguments import COMMAND, CONFIG, NAME, PATH, check_arguments
from mainspring.app.commands import judge, proposed_command
from mainspring.app.known import workspace_at
from mainspring.app.modes import parse_mode
from mainspring.app.operations.past_calls import KINDS, PastCalls
from mainspring.app.operations.sessions import journal_of
from mainspring.app.policies import DEFAULT_MODE
from mainspring.app.records import vault_of
from mainspring.app.step import template_of
from mainspring.app.stores import check_folder, sessions_of, shared_files, team_policies
from mainspring.app.team import approvals_in, person_of, rules_in, sees
from mainspring.app.team_rules import labelled
from mainspring.approvals import Effect, Finding, Judgement, Policy, Proposed, strictest
from mainspring.approvals.dangerous import DANGERS
from mainspring.approvals.grammar import parse
from mainspring.approvals.grants import Grant, GrantFile
from mainspring.approvals.quorums import in_words
from mainspring.approvals.rules import Rule, load, warnings
from mainspring.approvals.shell import read
from mainspring.approvals.simulate import Comparison, counts, simulate
from mainspring.errors import UsageError
from mainspring.events import CommandAsked, Limits
from mainspring.journal import events_in
from mainspring.people.constraints import approval_told, said_by
from mainspring.settings import Config, load_config

__all__ = [
    "Comparison",
    "Effect",
    "Finding",
    "Grant",
    "Judgement",
    "ListedDanger",
    "Rule",
    "RuleFile",
    "RulesInForce",
    "counts",
    "in_words",
    "is_allowed",
    "judge_call",
    "judge_command",
    "judge_exec",
    "judge_line",
    "judge_session",
    "list_grants",
    "revoke_grant",
    "rules_in_force",
]


class RuleFile(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one file. `source` is `user` or `project`; a project's rules can only tighten."""

    source: str
    path: Path
    rules: tuple[Rule, ...]
    warnings: tuple[str, ...] = ()


class ListedDanger(msgspec.Struct, frozen=True, kw_only=True):
    """A built-in rule."""

    name: str
    answer: str
    reason: str


class RulesInForce(msgspec.Struct, frozen=True, kw_only=True):
    files: tuple[RuleFile, ...]
    dangers: tuple[ListedDanger, ...]
    team: tuple[tuple[str, str], ...] = ()
    """What a team holds whoever asks to there: the names of rules, and what each says."""


def list_grants(config: Config) -> tuple[Grant, ...]:
    """Those of folders that whoever asks may look at, and those that hold everywhere."""
    policies, person = team_policies(config), person_of(config)
    found = GrantFile(shared_files(config)).all()
    return tuple(each for each in found if not each.workspace or sees(policies, person, each.workspace))


def revoke_grant(config: Config, grant: str) -> None:
    """Takes a grant back; it counts at once, also in sessions that run."""
    file = GrantFile(shared_files(config))
    for each in file.all():
        if each.id == grant and each.workspace:
            check_folder(config, each.workspace, "approvals revoke")
    if not file.revoke(grant):
        raise UsageError(f"There is no grant {grant}.", remedy="`mainspring approvals list` shows them.")


def rules_in_force(config: Config, folder: Path) -> RulesInForce:
    """The rules for work in a folder, and from which file they are."""
    home = config.variable("HOME") or "/"
    named = zip(("user", "project"), policies.rule_files(folder.resolve(), config), strict=True)
    loaded = [(source, path, load(path, source=source, home=home)) for source, path in named]
    return RulesInForce(
        files=tuple(
            RuleFile(source=source, path=path, rules=found.rules, warnings=warnings(found))
            for source, path, found in loaded
        ),
        dangers=tuple(
            ListedDanger(name=name, answer=danger.answer, reason=danger.reason)
            for name, danger in DANGERS.items()
        ),
        team=_of_team(config, str(folder.resolve())),
    )


def _of_team(config: Config, folder: str) -> tuple[tuple[str, str], ...]:
    in_force = team_policies(config)
    rules = rules_in(in_force, person_of(config), folder)
    said = [(name, "; ".join(said_by(rule))) for name, rule in rules]
    for name, rule in rules:
        said += [(label, _call_told(given)) for label, given in labelled(name, rule.call)]
    return (*said, *((name, approval_told(each)) for name, each in approvals_in(in_force, folder)))


def _call_told(given: Mapping[str, Any]) -> str:
    about = ", ".join(f"{name} {value}" for name, value in given.items() if name not in ("answer", "reason"))
    reason = f": {given['reason']}" if given.get("reason") else ""
    return f"{given.get('answer', '')} {about or 'everything'}{reason}".strip()


def judge_command(
    config: Config,
    command: str,
    *,
    folder: Path,
    mode: str = "",
    max_cost_usd: float | None = None,
    is_contained: bool = True,
) -> Judgement:
    """What would become of a line of shell that an agent wants to run in a folder. Nothing is run."""
    given: dict[str, Any] = {"mode": mode, "max_cost_usd": max_cost_usd, "is_contained": is_contained}
    return judge_call(config, "shell", {"command": command}, command=command, folder=folder, **given)


def judge_call(
    config: Config,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    folder: Path,
    effect: Effect = "execute",
    command: str = "",
    mode: str = "",
    max_cost_usd: float | None = None,
    is_contained: bool = True,
) -> Judgement:
    """What would become of a call of a tool with these arguments. Nothing is run."""
    policy = _policy(mode or config.settings.mode or DEFAULT_MODE, max_cost_usd, folder, config)
    return policy.judge(
        Proposed(
            tool=tool,
            effect=effect,
            arguments=arguments,
            command=command,
            workspace=str(folder.resolve()),
            is_contained=is_contained,
        )
    )


def judge_line(config: Config, line: str, *, template: str, folder: Path, **given: Any) -> Judgement:
    """What would be said to a line whose commands are steps: each is judged by the template, and a line that
    is more than one command by the policy too, as a whole."""
    root, _ = parse(line)
    outermost = [(each.via or (each.argv,))[0] for each in read(line).commands if not each.is_guess]
    steps = dict.fromkeys(tuple(word.text for word in argv) for argv in outermost if argv)
    if root is not None and len(steps) == 1 and [each.type for each in root.children] == ["command"]:
        return judge_exec(config, shlex.split(line), template=template, folder=folder, **given)
    mode = given.pop("mode", "") or template_of(template, config).mode
    whole = judge_command(config, line, folder=folder, mode=mode, **given)
    judged = [
        judge_exec(config, step, template=template, folder=folder, mode=mode, **given) for step in steps
    ]
    return strictest((*judged, whole))


def judge_exec(
    config: Config,
    argv: Sequence[str],
    *,
    folder: Path,
    template: str = "",
    mode: str = "",
    max_cost_usd: float | None = None,
    is_contained: bool = True,
) -> Judgement:
    """What `exec` would say to a command: its template first, then the policy. Nothing is run."""
    place = workspace_at(folder)
    chosen = template_of(template, config)
    policy = _policy(mode or chosen.mode or config.settings.mode or DEFAULT_MODE, max_cost_usd, place, config)
    asked = CommandAsked(argv=tuple(argv), cwd=str(place), template=template)
    return judge(proposed_command(asked, is_contained=is_contained), template, chosen, policy)


def is_allowed(
    argv: Sequence[str], *, cwd: Path | str = ".", template: str = "", config: Config | None = None
) -> tuple[bool, str]:
    """Whether `run_step` would run a command in a folder without asking anybody, in a sandbox; and why."""
    check_arguments(locals(), argv=COMMAND, cwd=PATH, template=NAME, config=CONFIG)
    verdict = judge_exec(config or load_config(), argv, folder=Path(cwd), template=template)
    return verdict.answer == "allow", verdict.reason


async def judge_session(
    config: Config, session: str, *, mode: str = "", max_cost_usd: float | None = None
) -> list[Comparison]:
    """What today's rules, grants and mode would have said to the calls of a session. Nothing is run."""
    async with journal_of(config, session) as reader:
        past = PastCalls(config, vault_of(sessions_of(config), reader.session, config))
        async for recorded in events_in(reader, kinds=KINDS):
            past.apply(recorded.event)
    policy = _policy(mode or past.mode, max_cost_usd or past.limits.max_cost_usd, past.workspace, config)
    return list(simulate(policy, past.calls()))


def _policy(name: str, max_cost_usd: float | None, folder: Path, config: Config) -> Policy:
    mode, level = parse_mode(name)
    limits = Limits(max_cost_usd=max_cost_usd)
    return policies.build_policy(policies.build_mode(mode, level, limits), folder.resolve(), config)

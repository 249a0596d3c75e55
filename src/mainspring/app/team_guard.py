"""A team's rules where an agent works: which modes, models, engines, tools and hosts may be used, which
commands may run, and what may be spent.

They are laid over the policy of a session and make it stricter, never milder: neither settings nor grants of
a person take anything back. What is in force is asked anew for each call, so a change counts in sessions that
run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path

import msgspec

from mainspring.app.model_choice import Connect
from mainspring.app.modes import parse_mode
from mainspring.app.stores import team_policies
from mainspring.app.team import approvals_in, may_have_policy, permission_in, person_of, rules_in
from mainspring.app.team_money import TeamMoney
from mainspring.app.team_rules import CallMatcher, by_rules, call_rules
from mainspring.approvals import MODES, Finding, Judgement, Mode, Policy, Proposed, strictest
from mainspring.catalog import Sessions
from mainspring.errors import AccessRefused
from mainspring.events import Limits, Origin, Quorum
from mainspring.models import Model
from mainspring.people.constraints import (
    NamedRules,
    Objection,
    against_engine,
    against_host,
    against_mode,
    against_model,
    against_tool,
    against_unconfined,
    caps_of,
)
from mainspring.people.persons import Person, person_on_record
from mainspring.people.team import TeamApproval
from mainspring.settings import Config
from mainspring.turns.runtime import Budget, Runtime

PROGRAM = "python"
"""The face of programs that use the library, which no table of commands stands before."""
DAEMON = "daemon"
"""The face of what the daemon and workers start."""
_REMEDY = "`mainspring policy show` says what holds here; ask an admin."


class TeamHold(msgspec.Struct, frozen=True):
    """What a team holds whoever gives the commands to, in a folder."""

    config: Config
    folder: str
    owner: Person | None = None

    def rules(self) -> NamedRules:
        """The rules that hold now."""
        return self.current()[0]

    def current(self) -> tuple[NamedRules, tuple[tuple[str, TeamApproval], ...]]:
        """The rules that hold now, and what holds for answers about calls."""
        policies = team_policies(self.config)
        return rules_in(policies, person_of(self.config), self.folder), approvals_in(policies, self.folder)

    def mode(self, asked: str, usual: str) -> tuple[Mode, str]:
        """The mode to work in, with the level if its name is one: the one that was asked for, or else the
        freest that may be used in the place of the usual one."""
        mode, level = parse_mode(asked or usual)
        rules = self.rules()
        chosen = mode if asked else _freest(rules, mode)
        _refuse(against_mode(rules, chosen))
        return chosen, level if chosen == mode else ""

    def connecting(self, connect: Connect) -> Connect:
        """How models are connected here: those that may be used."""

        def connected(named: Model | str) -> Model:
            model = connect(named)
            self.check_model(model.name)
            return model

        return connected

    def check_model(self, name: str) -> None:
        _refuse(against_model(self.rules(), name))

    def check_engine(self, name: str) -> None:
        _refuse(against_engine(self.rules(), name))

    def capped(self, limits: Limits) -> Limits:
        """Limits that say that money is capped, where the team caps it."""
        caps = [cap.usd for cap in caps_of(self.rules())]
        if not caps:
            return limits
        usd = min(caps if limits.day.usd is None else (*caps, limits.day.usd))
        return msgspec.structs.replace(limits, day=msgspec.structs.replace(limits.day, usd=usd))

    def budget(self, limits: Limits, parent: Runtime | None, store: Sessions) -> Budget:
        """What a session here may spend, and whoever works on it and whose session it is."""
        money: TeamMoney | None = None
        if may_have_policy(self.config):
            people = tuple(dict.fromkeys(filter(None, (person_of(self.config), self.owner))))
            money = TeamMoney(store, partial(team_policies, self.config), people, self.folder, self.config)
        return Budget(limits=limits, parent=parent, day=store.today(), team=money)

    def laid_over(self, policy: Policy) -> Policy:
        """A policy that is at most as mild as the team's rules."""
        return _Guarded(policy, self) if may_have_policy(self.config) else policy


async def hold_in(config: Config, folder: Path, *, is_new: bool, owner: Origin | None = None) -> TeamHold:
    """What holds for a session in a folder, once it is clear that whoever gives the commands may begin it, or
    go on with it. What the daemon goes on with is held to what holds for its `owner`."""
    if config.person is None and owner is not None and config.origin.face == DAEMON:
        owned = person_on_record(owner, "who said last what the daemon goes on with")
        config = msgspec.structs.replace(config, person=owned)
    owned_by = person_on_record(owner, "who said last what is worked on") if owner and owner.user else None
    hold = msgspec.structs.replace(hold_of(config, folder), owner=owned_by)
    if may_have_policy(config):
        policies = await asyncio.to_thread(team_policies, config)
        goes_on = "say" if config.origin.face == PROGRAM else "approve"  # else a face decided what it is for
        operation = "run" if is_new else goes_on
        said = permission_in(policies, person_of(config), operation, hold.folder)
        if said and not said.is_allowed:
            raise AccessRefused(said.reason, remedy=said.remedy, rule=said.rule)
        for helper in filter(None, (config.settings.compaction_model, config.settings.review.model)):
            hold.check_model(helper)
    return hold


def hold_of(config: Config, folder: Path) -> TeamHold:
    """What holds in a folder."""
    return TeamHold(config, str(folder.resolve()))


def _freest(rules: NamedRules, wanted: Mode) -> Mode:
    """The mode that is wanted, or the freest below it that may be used; itself, when there is none."""
    freest: Mode | None = None
    for each in (*takewhile(lambda each: each != wanted, MODES), wanted):
        if against_mode(rules, each) is None:
            freest = each
    return freest or wanted


def _refuse(objection: Objection | None) -> None:
    if objection is not None:
        said = objection.reason[:1].upper() + objection.reason[1:]
        raise AccessRefused(f"{said}: {objection.rule}.", remedy=_REMEDY, rule=objection.rule)


class _Guarded:
    def __init__(self, inner: Policy, hold: TeamHold) -> None:
        self.inner = inner
        self._hold = hold
        self._about_calls: tuple[NamedRules, Policy | None] = ((), None)
        self._matchers: dict[tuple[str, str], CallMatcher] = {}

    def judge(self, proposed: Proposed) -> Judgement:
        rules, approvals = self._hold.current()
        verdict = self._judge(proposed, rules)
        quorums = tuple(self._quorums(proposed, approvals)) if verdict.answer != "deny" else ()
        return msgspec.structs.replace(verdict, quorums=quorums) if quorums else verdict

    def _quorums(
        self, proposed: Proposed, approvals: tuple[tuple[str, TeamApproval], ...]
    ) -> Iterator[Quorum]:
        """Whose yes a call takes, should a person be asked about it."""
        for name, approval in approvals:
            if approval.call and not self._matcher(name, approval).fits(proposed):
                continue
            if (approval.by, approval.of, approval.not_own) != (("*",), 1, False):
                yield Quorum(rule=name, by=approval.by, of=approval.of, not_own=approval.not_own)

    def _matcher(self, name: str, approval: TeamApproval) -> CallMatcher:
        key = (name, repr(approval.call))
        if key not in self._matchers:
            home = self._hold.config.variable("HOME") or "/"
            self._matchers[key] = CallMatcher(name, approval.call, home)
        return self._matchers[key]

    def _judge(self, proposed: Proposed, rules: NamedRules) -> Judgement:
        verdict = self.inner.judge(proposed)
        findings = tuple(_denied(proposed, each) for each in _objections(rules, proposed))
        verdicts = [verdict, *(_as_judgement(each, verdict) for each in findings)]
        if engine := self._engine(rules):
            verdicts.append(engine.judge(proposed))
        worst = strictest(verdicts)
        if worst is verdict:
            return verdict
        told = (*worst.findings, *(each for each in verdict.findings if each not in worst.findings))
        return Judgement(
            answer=worst.answer,
            reason=worst.reason,
            rule=worst.rule,
            findings=told,
            blocked_by="rule",
            allowance=verdict.allowance,
        )

    def _engine(self, rules: NamedRules) -> Policy | None:
        """What judges calls by the team's rules about them, and by nothing else; None when there are none."""
        about = tuple(each for each in rules if each[1].call)
        if about != self._about_calls[0]:
            self._about_calls = about, _by_calls(about, self._hold.config) if about else None
        return self._about_calls[1]


def _by_calls(about: NamedRules, config: Config) -> Policy:
    """The engine of all rules, with a mode that says nothing."""
    home = config.variable("HOME") or "/"
    return by_rules(call_rules(about, home), home)


def _objections(rules: NamedRules, proposed: Proposed) -> Iterator[Objection]:
    """What the rules have against a call; bookkeeping of our own is none of the world's business."""
    if proposed.effect == "none":
        return
    found = [against_tool(rules, proposed.tool), *(against_host(rules, host) for host in proposed.hosts)]
    if proposed.effect == "network" and not proposed.hosts:
        found.append(against_host(rules, ""))
    if proposed.effect == "execute" and not proposed.is_contained:
        found += [against_unconfined(rules), against_host(rules, "")]
    yield from filter(None, found)


def _denied(proposed: Proposed, objection: Objection) -> Finding:
    return Finding(
        subject=proposed.command or proposed.tool,
        answer="deny",
        reason=objection.reason,
        rule=objection.rule,
        blocked_by="rule",
    )


def _as_judgement(finding: Finding, verdict: Judgement) -> Judgement:
    return Judgement(
        answer=finding.answer,
        reason=finding.reason,
        rule=finding.rule,
        findings=(finding,),
        blocked_by="rule",
        allowance=verdict.allowance,
    )

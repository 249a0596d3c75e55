"""A policy under the rules of a team, which are laid over it: calls are judged by both, and the stricter word
counts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainspring.app.team_guard import TeamHold
from mainspring.app.team_rules import CallMatcher, by_rules, call_rules
from mainspring.approvals import Finding, Judgement, Policy, Proposed, strictest
from mainspring.events import Quorum
from mainspring.people.constraints import (
    NamedRules,
    Objection,
    against_host,
    against_tool,
    against_unconfined,
)
from mainspring.people.team import TeamApproval
from mainspring.settings import Config


class GuardedPolicy:
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

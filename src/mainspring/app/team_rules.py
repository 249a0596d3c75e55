"""The rules of a team about calls, as rules of approvals that only ask or deny."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.approvals import ModePolicy, Policy, Proposed
from mainspring.errors import ConfigError
from mainspring.people.team import TeamPolicy, TeamRule

if TYPE_CHECKING:
    from mainspring.approvals.rules import Rules

_UNLIMITED_USD = 1e12
_ANY_HOME = "/home/user"


def call_rules(named: Iterable[tuple[str, TeamRule]], home: str) -> Rules:
    """The rules about calls of these rules of a team, each named by the one that it stands in."""
    rules = import_module("mainspring.approvals.rules")  # loads a shell parser
    made: list[Any] = []
    for name, rule in named:
        for label, given in labelled(name, rule.call):
            if given.get("answer") == "allow":
                raise ConfigError(
                    f"{label} allows; a team's rules can only ask or deny.", remedy="Leave it out."
                )
            made.append(_rule(label, given))
    return rules.checked(rules.Rules("team", tuple(made)), home, "the policy of the team")


class CallMatcher:
    """Tells which calls something of a team is about, by the engine of all rules."""

    def __init__(self, name: str, calls: Sequence[dict[str, Any]], home: str) -> None:
        rules = import_module("mainspring.approvals.rules")  # loads a shell parser
        named = list(labelled(name, calls))
        for label, given in named:
            if "answer" in given:
                raise ConfigError(
                    f"{label} has an answer; it only says which calls are meant.", remedy="Leave it out."
                )
        made = tuple(_rule(label, {**given, "answer": "deny"}) for label, given in named)
        self._labels = [label for label, _ in named]
        found = rules.checked(rules.Rules("team", made), home, "the policy of the team")
        self._policy = by_rules(found, home)

    def fits(self, proposed: Proposed) -> bool:
        """Whether a call, or a part of it, is one of those."""
        found = self._policy.judge(proposed)
        told = (found.rule, *(each.rule for each in found.findings))
        return any(label in rule for label in self._labels for rule in told)


def by_rules(found: Rules, home: str) -> Policy:
    """The engine of all rules with these alone, and with a mode that says nothing."""
    layered = import_module("mainspring.approvals.policy").LayeredPolicy  # loads a shell parser
    return layered(ModePolicy("yolo", max_cost_usd=_UNLIMITED_USD), home=home, project=found)


def check_calls(policy: TeamPolicy) -> None:
    """`ConfigError` when a rule about calls is not valid, or is not what its examples say."""
    if any(rule.call for rule in policy.rule):
        call_rules(((rule.name, rule) for rule in policy.rule), _ANY_HOME)
    for each in policy.approval:
        if each.call:
            CallMatcher(f"approval {each.name}", each.call, _ANY_HOME)


def labelled(name: str, calls: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rules about calls, each with the name by which it is told."""
    for number, given in enumerate(calls, 1):
        yield f"{name}, call {given.get('name') or number}", given


def _rule(label: str, given: dict[str, Any]) -> Any:
    rules = import_module("mainspring.approvals.rules")  # loads a shell parser
    try:
        one = msgspec.convert(given, rules.Rule)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{label} is not valid: {error}.", remedy="Correct the policy.") from error
    return msgspec.structs.replace(one, name=label)

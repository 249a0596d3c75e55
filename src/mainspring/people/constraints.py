"""What the rules of a team hold a person to in one project. All hold together; the first that is broken is
named. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from mainspring.events.counts import plural
from mainspring.people.team import TeamApproval, TeamRule

NamedRules = tuple[tuple[str, TeamRule], ...]
"""Rules, each with the name by which it is told."""


class Objection(msgspec.Struct, frozen=True):
    """What a rule has against something."""

    rule: str
    reason: str


class TeamCap(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent: by one person or in one project, in a day or a calendar month."""

    rule: str
    usd: float
    whose: Literal["person", "project"]
    per: Literal["day", "month"]

    @property
    def words(self) -> str:
        return f"{self.usd:g} USD per {self.whose} and {self.per}"


def against_mode(rules: NamedRules, mode: str) -> Objection | None:
    return _first(
        (name, rule, f"the mode {mode} may not be used; these may: {_listed(rule.modes)}")
        for name, rule in rules
        if rule.modes is not None and mode not in rule.modes
    )


def against_model(rules: NamedRules, model: str) -> Objection | None:
    return _first(
        (name, rule, f"the model {model} may not be used; these may: {_listed(rule.models)}")
        for name, rule in rules
        if rule.models is not None and not _fits(model, rule.models)
    )


def against_engine(rules: NamedRules, engine: str) -> Objection | None:
    return _first(
        (name, rule, f"the engine {engine} may not be used; these may: {_listed(_engines(rule))}")
        for name, rule in rules
        if (allowed := _engines(rule)) is not None and engine not in allowed
    )


def _engines(rule: TeamRule) -> tuple[str, ...] | None:
    """Who may take turns under a rule; None when it does not care."""
    if rule.engines is not None:
        return rule.engines
    is_about_calls = rule.confined or rule.call or (rule.tools, rule.hosts) != (None, None)
    return ("builtin",) if is_about_calls else None


def against_tool(rules: NamedRules, tool: str) -> Objection | None:
    return _first(
        (name, rule, f"the tool {tool} may not be used")
        for name, rule in rules
        if rule.tools is not None and not _fits(tool, rule.tools)
    )


def against_host(rules: NamedRules, host: str) -> Objection | None:
    return _first(
        (name, rule, f"{host or 'the network'} may not be reached")
        for name, rule in rules
        if rule.hosts is not None and not (host and _fits(host.lower(), rule.hosts))
    )


def against_unconfined(rules: NamedRules) -> Objection | None:
    return _first(
        (name, rule, "commands may run only where the sandbox confines them")
        for name, rule in rules
        if rule.confined
    )


def caps_of(rules: NamedRules) -> tuple[TeamCap, ...]:
    """What may be spent, by every rule that says so."""
    return tuple(
        TeamCap(rule=name, usd=usd, whose=whose, per=per)
        for name, rule in rules
        for whose in ("person", "project")
        for per in ("day", "month")
        if (usd := getattr(rule, f"{whose}_{per}_usd")) is not None
    )


def _first(found: Iterable[tuple[str, TeamRule, str]]) -> Objection | None:
    name, rule, what = next(iter(found), ("", None, ""))
    if rule is None:
        return None
    return Objection(name, f"{what} ({rule.reason})" if rule.reason else what)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(names: Iterable[str] | None) -> str:
    return ", ".join(names or ()) or "none"


def said_by(rule: TeamRule) -> Iterator[str]:
    """What a rule says, in words."""
    for field in ("modes", "models", "engines", "tools", "hosts"):
        names = getattr(rule, field)
        if names is not None:
            yield f"{field}: {_listed(names)}"
    if rule.confined:
        yield "commands only in the sandbox"
    yield from (cap.words for cap in caps_of((("", rule),)))
    if rule.call:
        yield f"{plural(len(rule.call), 'rule')} about calls"


def approval_told(approval: TeamApproval) -> str:
    """Whose yes it takes, in words."""
    people = "everybody who may approve" if "*" in approval.by else _listed(approval.by)
    about = f" about {plural(len(approval.call), 'kind')} of calls" if approval.call else ""
    own = ", not whose command led to it" if approval.not_own else ""
    return f"what is asked{about} takes the yes of {approval.of} of {people}{own}"

"""A team's rules where an agent works: which modes, models, engines, tools and hosts may be used, which
commands may run, and what may be spent.

They are laid over the policy of a session and make it stricter, never milder: neither settings nor grants of
a person take anything back. What is in force is asked anew for each call, so a change counts in sessions that
run.
"""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.app.model_choice import Connect
from mainspring.app.modes import parse_mode
from mainspring.app.stores import team_policies
from mainspring.app.team import approvals_in, may_have_policy, permission_in, person_of, rules_in
from mainspring.approvals import MODES, Mode, Policy
from mainspring.catalog import Sessions
from mainspring.errors import AccessRefused
from mainspring.events import Limits, Origin
from mainspring.models import Model
from mainspring.people.constraints import (
    NamedRules,
    Objection,
    against_engine,
    against_mode,
    against_model,
    caps_of,
)
from mainspring.people.persons import Person, person_on_record
from mainspring.people.team import TeamApproval
from mainspring.settings import Config
from mainspring.turns.runtime import Budget, Runtime

if TYPE_CHECKING:
    from mainspring.app.team_money import TeamMoney

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
            team_money = import_module("mainspring.app.team_money")
            money = team_money.TeamMoney(
                store, partial(team_policies, self.config), people, self.folder, self.config
            )
        return Budget(limits=limits, parent=parent, day=store.today(), team=money)

    def laid_over(self, policy: Policy) -> Policy:
        """A policy that is at most as mild as the team's rules."""
        if not may_have_policy(self.config):
            return policy
        return import_module("mainspring.app.guarded_policy").GuardedPolicy(policy, self)


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

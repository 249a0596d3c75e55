"""A team's policy: who has which role in which project, and what everybody is held to.

It is a file of TOML that an admin signs. Rules only ever tighten: all that fit hold together, so the order
does not matter and no rule can take another back. Pure; `app/team.py` says which policies are in force.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import msgspec

from mainspring.disk.formats import read_toml
from mainspring.errors import ConfigError
from mainspring.people.persons import ROLES, Person, PersonRole, means, problem_of

_FORMAT = 1
MODES = ("plan", "ask", "edits", "auto", "yolo")
_Usd = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class TeamProject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[project]]`: the folders that it is in, and the roles of people there."""

    name: str
    paths: tuple[str, ...]
    """Folders, whole, perhaps with `*`; what lies in them belongs to the project as well."""
    closed: bool = False
    """Only the people that it names, and admins, may see it."""
    roles: dict[PersonRole, tuple[str, ...]] = {}
    """Who has which role there, whatever `[roles]` says of them."""

    def has(self, folder: str) -> bool:
        """Whether a folder is of this project."""
        return any(
            fnmatchcase(folder, path.rstrip("/")) or fnmatchcase(folder, f"{path.rstrip('/')}/*")
            for path in self.paths
        )


class TeamRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[rule]]`. What it does not say, it does not care about."""

    name: str
    """A name for the rule, shown with what it decided."""
    reason: str = ""
    """Why; told to whoever is refused something."""
    people: tuple[str, ...] = ("*",)
    """Whom it holds for: people, groups, or `role:developer`."""
    projects: tuple[str, ...] = ()
    """Where it holds, by the names of projects; empty: everywhere."""
    modes: tuple[str, ...] | None = None
    """The modes that may be used."""
    models: tuple[str, ...] | None = None
    """The models that may be used, by name, perhaps with `*`."""
    engines: tuple[str, ...] | None = None
    """The engines that may take turns. An outside agent uses tools of its own, so a rule about tools, hosts,
    confinement or calls lets only `builtin` do so unless this names others."""
    tools: tuple[str, ...] | None = None
    """The tools that agents may use, by name, perhaps with `*`."""
    hosts: tuple[str, ...] | None = None
    """The hosts that tools may reach, or `*.example.org`; empty: none."""
    confined: bool = False
    """Commands run only where the sandbox confines them, and so without a network."""
    person_day_usd: _Usd | None = None
    """What each of these people may spend in a day."""
    person_month_usd: _Usd | None = None
    """What each of these people may spend in a calendar month."""
    project_day_usd: _Usd | None = None
    """What all people together may spend in a day in each of these projects."""
    project_month_usd: _Usd | None = None
    """What all people together may spend in a calendar month in each of these projects."""
    call: tuple[dict[str, Any], ...] = ()
    """Rules about calls, as `[[rule]]` of `approvals.toml`, which ask or deny."""


class TeamApproval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[approval]]`: whose yes it takes where a person is asked about a call. It asks nothing itself;
    all that fit hold together."""

    name: str
    """A name for it, shown with what is asked."""
    projects: tuple[str, ...] = ()
    """Where it holds, by the names of projects; empty: everywhere."""
    call: tuple[dict[str, Any], ...] = ()
    """Which calls it is about, as `[[rule]]` of `approvals.toml` without an answer; empty: all."""
    by: tuple[str, ...] = ("*",)
    """Who may answer: people or groups; `*` is everybody whose role lets them."""
    of: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    """So many of them must say yes. A no of one of them ends it."""
    not_own: bool = False
    """Nobody allows what their own command led to."""


class TeamPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file says."""

    serial: Annotated[int, msgspec.Meta(ge=1)]
    """A number that grows with every change; an older one is not taken any more."""
    note: str = ""
    """What people should know about it."""
    keys: tuple[str, ...] = ()
    """The keys of those who may sign the next one, besides whoever signed this one."""
    issuers: tuple[str, ...] = ()
    """Whose word counts about addresses, `login:` names and claims: the addresses of issuers. Who logged in
    elsewhere has no role."""
    name_claim: str = "email"
    """The claim of their tokens that is a person's name, whatever settings say."""
    groups_claim: str = "groups"
    """The claim of their tokens with the groups that `claim:` means, whatever settings say."""
    clients: tuple[str, ...] = ()
    """For which clients their tokens must be made; empty: for whichever settings name."""
    groups: dict[str, tuple[str, ...]] = {}
    """People under one name, which is written with an @."""
    roles: dict[PersonRole, tuple[str, ...]] = {}
    """Who has which role wherever a project says nothing else."""
    project: tuple[TeamProject, ...] = ()
    rule: tuple[TeamRule, ...] = ()
    approval: tuple[TeamApproval, ...] = ()

    def project_of(self, folder: str) -> TeamProject | None:
        """The first project that a folder belongs to."""
        return next((each for each in self.project if folder and each.has(folder)), None)

    def role_of(self, person: Person, project: TeamProject | None) -> tuple[PersonRole | None, str]:
        """The role of a person in a project or elsewhere, and what gives it to them."""
        if person.issuer and (unknown := self._doubt(person)):
            return None, unknown
        everywhere = self._named(self.roles, person)
        if project is not None and everywhere != "admin":
            own = self._named(project.roles, person)
            if own or project.closed:
                return own and _at_most(person, own), f"project {project.name}"
        return everywhere and _at_most(person, everywhere), "[roles]"

    def first_place(self, person: Person) -> TeamProject | None:
        """Where a person has a role: everywhere, or else in the first project that gives them one."""
        places = (None, *self.project)
        return next((each for each in places if self.role_of(person, each)[0] is not None), None)

    def sees_everything(self, person: Person) -> bool:
        """Whether there is no project that a person may not look at."""
        places = (None, *self.project)
        return all(self.role_of(person, place)[0] is not None for place in places)

    def rules_for(self, person: Person, folder: str) -> Iterator[TeamRule]:
        """The rules that hold for a person in a folder."""
        project = self.project_of(folder)
        role, _ = self.role_of(person, project)
        for rule in self.rule:
            if rule.projects and (project is None or project.name not in rule.projects):
                continue
            if f"role:{role}" in rule.people or means(rule.people, person, self.groups):
                yield rule

    def approvals_for(self, folder: str) -> Iterator[TeamApproval]:
        """What holds for answers about calls in a folder, with people in the place of groups."""
        project = self.project_of(folder)
        for each in self.approval:
            if not each.projects or (project is not None and project.name in each.projects):
                yield msgspec.structs.replace(each, by=self.people_of(each))

    def people_of(self, approval: TeamApproval) -> tuple[str, ...]:
        """Who may answer, each once."""
        names = (self.groups.get(name[1:], ()) if name.startswith("@") else (name,) for name in approval.by)
        return tuple(dict.fromkeys(name for each in names for name in each))

    def _doubt(self, person: Person) -> str:
        """Which entry says that it is not known who this is; empty when it is known. Settings could else name
        a claim that everybody may fill in as they like, or a client to which others have shown themselves."""
        if person.issuer not in self.issuers:
            return "issuers"
        if person.read_from is None:
            return ""
        name, groups, client = person.read_from
        found = {
            "name_claim": name == self.name_claim,
            "groups_claim": groups == self.groups_claim or not person.claims,
            "clients": not self.clients or client in self.clients,
        }
        return next((entry for entry, is_same in found.items() if not is_same), "")

    def _named(self, roles: dict[PersonRole, tuple[str, ...]], person: Person) -> PersonRole | None:
        """The strongest role that these give a person."""
        found: PersonRole | None = None
        for role in ROLES:
            if means(roles.get(role, ()), person, self.groups):
                found = role
        return found


def parse_team(text: str, file: str) -> TeamPolicy:
    """The policy of a text, checked; `ConfigError` when it is not valid."""
    policy = read_toml(text, TeamPolicy, file=Path(file), known=_FORMAT)
    if problem := next(_problems(policy), ""):
        raise ConfigError(f"{file} is not valid: {problem}.", remedy="Edit this file.")
    return policy


def _at_most(person: Person, role: PersonRole) -> PersonRole:
    return ROLES[min(ROLES.index(role), ROLES.index(person.at_most))]


def _problems(policy: TeamPolicy) -> Iterator[str]:
    for names in policy.groups.values():
        yield from filter(None, (problem_of(name, policy.groups, is_in_group=True) for name in names))
    projects = [each.name for each in policy.project]
    yield from _repeated("project", projects)
    yield from _repeated("rule", [each.name for each in policy.rule])
    for roles in (policy.roles, *(each.roles for each in policy.project)):
        for names in roles.values():
            yield from filter(None, (problem_of(name, policy.groups) for name in names))
    for project in policy.project:
        if wrong := [path for path in project.paths if not path.startswith(("/", "*"))]:
            yield f"project {project.name}: {wrong[0]!r} is no whole path"
    for rule in policy.rule:
        yield from (f"rule {rule.name}: {each}" for each in _problems_of(rule, policy, projects))

    yield from _repeated("approval", [each.name for each in policy.approval])
    for each in policy.approval:
        yield from (f"approval {each.name}: {problem}" for problem in _faults_of(each, policy, projects))


def _faults_of(approval: TeamApproval, policy: TeamPolicy, projects: list[str]) -> Iterator[str]:
    yield from filter(None, (problem_of(name, policy.groups) for name in approval.by))
    yield from (f"there is no project {name!r}" for name in approval.projects if name not in projects)
    people = policy.people_of(approval)
    is_counted = not any(name == "*" or name.startswith("claim:") for name in people)
    if is_counted and len(people) < approval.of:
        yield f"it takes {approval.of} people, and `by` names {len(people)}"


def _problems_of(rule: TeamRule, policy: TeamPolicy, projects: list[str]) -> Iterator[str]:
    for name in rule.people:
        if not name.startswith("role:"):
            yield from filter(None, [problem_of(name, policy.groups)])
        elif name.removeprefix("role:") not in ROLES:
            yield f"there is no role {name.removeprefix('role:')!r}"
    yield from (f"there is no project {name!r}" for name in rule.projects if name not in projects)
    yield from (f"there is no mode {name!r}" for name in rule.modes or () if name not in MODES)


def _repeated(what: str, names: list[str]) -> Iterator[str]:
    yield from (f"two of [[{what}]] are called {name!r}" for name in names if names.count(name) > 1)

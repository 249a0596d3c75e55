"""Who may do what: a role has rights, an operation takes one. `decide` is the only place that says so."""

from __future__ import annotations

import msgspec

from mainspring.people.operations import OPERATIONS, Right
from mainspring.people.persons import ROLES, Person, PersonRole
from mainspring.people.team import TeamPolicy

RIGHTS: dict[PersonRole, frozenset[Right]] = {
    "viewer": frozenset({"see"}),
    "reviewer": frozenset({"see", "approve"}),
    "developer": frozenset({"see", "approve", "start", "own"}),
    "admin": frozenset({"see", "approve", "start", "own", "manage"}),
}
_WORDS: dict[Right, str] = {
    "see": "look",
    "own": "change the settings of this machine",
    "approve": "answer questions",
    "start": "start and steer work",
    "manage": "change what holds for others",
}


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a command may be done, and the rule that says so."""

    is_allowed: bool
    rule: str
    reason: str = ""
    remedy: str = ""
    is_hidden: bool = False
    """Whoever asks may not even know that there is such a session."""


def decide(role: PersonRole, operation: str, *, who: str, where: str) -> Permission:
    """Whether somebody with this role may do this; `where` says what gave them the role."""
    right = OPERATIONS[operation]
    rule = f"{where}: {role}"
    if right in RIGHTS[role]:
        return Permission(is_allowed=True, rule=rule)
    needed = next(each for each in ROLES if right in RIGHTS[each])
    return Permission(
        is_allowed=False,
        rule=rule,
        reason=f"{who} may not {_WORDS[right]} here: `{operation}` takes the role {needed}, not {role}.",
        remedy="Ask an admin.",
    )


def decide_in(
    policy: TeamPolicy, person: Person, operation: str, *, folder: str | None, where: str
) -> Permission:
    """What a policy says to a command of a person about a folder, or with None about whatever they may see;
    `where` says which policy it is."""
    project = policy.first_place(person) if folder is None else policy.project_of(folder)
    role, by = policy.role_of(person, project)
    rule = f"{where}, {by}"
    if role is not None:
        place = f" in project {project.name}" if project else ""
        found = decide(role, operation, who=person.name, where=rule)
        reason = found.reason.replace(" here:", f"{place or ' here'}:")
        remedy = found.remedy and (person.remedy or found.remedy)
        return msgspec.structs.replace(found, reason=reason, remedy=remedy)
    place = f"in project {project.name}" if project else "here"
    remedy = "Ask an admin for a role; `mainspring policy show` says who is known as what."
    if by in ("name_claim", "groups_claim", "clients"):
        remedy = f"The policy says what counts under `{by}`; correct [login] in config.toml."
    return Permission(
        is_allowed=False,
        rule=f"{rule}: no role",
        reason=f"{person.name} ({person.known_by}) has no role {place}, and `{operation}` takes one.",
        remedy=person.remedy or remedy,
    )

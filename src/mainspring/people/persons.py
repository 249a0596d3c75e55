"""Who somebody is, as far as that is known, and which names of a policy mean them.

A name says how it was found out, so that nobody can take another's: `local:ada` is an account of the machine
that the command was given on, `service:ci` has a token that an admin made, and an address, or `login:ada`
for a name that is none, was said by an issuer whose signature was checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from mainspring.events import Origin

PersonRole = Literal["viewer", "reviewer", "developer", "admin"]
ROLES: tuple[PersonRole, ...] = ("viewer", "reviewer", "developer", "admin")
"""From the one that may least."""
LOCAL, SERVICE, LOGIN = "local:", "service:", "login:"
_GROUP, _CLAIM, _EVERYBODY = "@", "claim:", "*"


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who gives commands. `claims` are the groups that their issuer named, `at_most` is the role
    beyond which the way by which they came does not go, and `known_by` says how it is known who they are.
    `remedy` is what they can do to be known better."""

    name: str
    known_by: str
    claims: tuple[str, ...] = ()
    at_most: PersonRole = "admin"
    issuer: str = ""
    """Who vouches for the name and the claims, where that is neither a machine nor a token of ours."""
    read_from: tuple[str, str, str] | None = None
    """The claims that the name and the groups are from, and the client that the token was made for, as
    settings say; None for somebody on record."""
    remedy: str = ""


def local_name(user: str) -> str:
    """The name of an account of a machine."""
    return f"{LOCAL}{user or 'unknown'}"


def person_named(name: str, known_by: str) -> Person:
    """The person that somebody means who writes a name: an account, unless it says how else it is known."""
    is_whole = "@" in name or name.startswith((LOCAL, SERVICE, LOGIN))
    return Person(name=name if is_whole else local_name(name), known_by=known_by)


def person_on_record(origin: Origin, known_by: str) -> Person:
    """The person that a command is on record of: an account, unless it says how else that was found out."""
    if origin.issuer:
        return Person(name=origin.user, known_by=known_by, claims=origin.groups, issuer=origin.issuer)
    is_whole = origin.user.startswith((LOCAL, SERVICE))
    return Person(name=origin.user if is_whole else local_name(origin.user), known_by=known_by)


def recorded_by(origin: Origin, person: Person) -> Origin:
    """Where a command comes from, when it is this person's."""
    groups = person.claims if person.issuer else ()
    return msgspec.structs.replace(origin, user=recorded_name(person), issuer=person.issuer, groups=groups)


def recorded_name(person: Person) -> str:
    """The name under which a person is recorded: of an account that of the account, if nothing else is meant
    by that."""
    plain = person.name.removeprefix(LOCAL)
    is_plain = person.name.startswith(LOCAL) and "@" not in plain and ":" not in plain
    return plain if is_plain else person.name


def means(names: Iterable[str], person: Person, groups: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether one of these names means a person: their own, a group of the policy (`@core`), a group of their
    issuer (`claim:core`), or everybody (`*`)."""
    return any(_means(name, person, groups) for name in names)


def _means(name: str, person: Person, groups: Mapping[str, tuple[str, ...]]) -> bool:
    if name.startswith(_GROUP):
        return means(groups.get(name.removeprefix(_GROUP), ()), person, {})
    if name.startswith(_CLAIM):
        return name.removeprefix(_CLAIM) in person.claims
    return name in (_EVERYBODY, person.name)


def problem_of(name: str, groups: Mapping[str, tuple[str, ...]], *, is_in_group: bool = False) -> str:
    """What is wrong with a name of a policy; empty when nothing is."""
    if name.startswith(_GROUP):
        if is_in_group:
            return f"{name!r} stands in a group; groups hold people, not groups"
        return "" if name[1:] in groups else f"there is no group {name!r}"
    is_known = (
        name == _EVERYBODY or "@" in name or name.partition(":")[0] in ("local", "service", "claim", "login")
    )
    return (
        ""
        if is_known and name.rpartition(":")[2]
        else (
            f"{name!r} does not say who is meant; write local:NAME for an account, service:NAME for a token,"
            " an address or login:NAME for somebody who logs in, @GROUP, claim:GROUP, or *"
        )
    )

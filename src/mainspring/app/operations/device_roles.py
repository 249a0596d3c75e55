"""Devices and programs with a token of a server, and what each may do: a case of the roles of people."""

from __future__ import annotations

from typing import Literal

import msgspec

from mainspring.app.team import person_of
from mainspring.people.operations import OPERATIONS, Right
from mainspring.people.persons import Person, PersonRole, recorded_by
from mainspring.people.roles import Permission, decide
from mainspring.settings import Config

Role = Literal["watch", "answer", "steer", "owner"]
"""What a device may do: look; answer questions, too; start, steer and stop work, too; and pair others."""
PAIRED_ROLES: tuple[Role, ...] = ("watch", "answer", "steer")
SERVICE_ROLES: tuple[Role, ...] = (*PAIRED_ROLES, "owner")
PERSON_ROLES: dict[Role, PersonRole] = {
    "watch": "viewer",
    "answer": "reviewer",
    "steer": "developer",
    "owner": "admin",
}
"""What a device may do is what a person with this role may do."""
_ROLE_FOR: dict[Right, Role] = {
    "see": "watch",
    "approve": "answer",
    "start": "steer",
    "own": "steer",
    "manage": "owner",
}


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A paired device. `sha256` is the hash of its token, which nobody but the device knows."""

    id: str
    name: str
    role: Role
    sha256: str
    paired_us: int
    person: Person | None = None
    """Who has it, where that is not whoever works at this machine."""
    until_us: int | None = None


OWNER = Device(id="owner", name="this machine", role="owner", sha256="", paired_us=0)
"""Whoever has the server's own token."""


def role_for(operation: str) -> Role:
    """The least role of a device that may do this."""
    return _ROLE_FOR[OPERATIONS[operation]]


def device_permission(device: Device, operation: str) -> Permission:
    """Whether a device may do this."""
    where = "the server's token" if device.id == OWNER.id else f"device {device.id}"
    found = decide(PERSON_ROLES[device.role], operation, who=device.name, where=where)
    if found.is_allowed:
        return found
    reason = f"{device.name} is paired to {device.role}; `{operation}` needs the role {role_for(operation)}."
    return msgspec.structs.replace(found, reason=reason, remedy="Pair it again with another role.")


def asked_by(config: Config, device: Device, face: str, program: str | None = None) -> Config:
    """The settings, with who asks: the person of a device, and with no more than its role."""
    role, known_by = PERSON_ROLES[device.role], f"{device.name}, {device.role}"
    person = device.person or person_of(config)
    person = msgspec.structs.replace(person, at_most=role, known_by=known_by)
    origin = msgspec.structs.replace(
        recorded_by(config.origin, person) if device.person else config.origin,
        device=device.name,
        token=device.id,
        program=config.origin.program if program is None else program,
        face=face,
    )
    return msgspec.structs.replace(config, origin=origin, person=person)


def at_most(device: Device, role: Role) -> Device:
    """The device, with no more than this role."""
    ranks = tuple(PERSON_ROLES)
    return msgspec.structs.replace(device, role=min(device.role, role, key=ranks.index))

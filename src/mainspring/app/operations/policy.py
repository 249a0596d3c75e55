"""The policies of a team: which are in force, what they say to whom, signing one and setting it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mainspring.app.stores import shared_files, team_policies
from mainspring.app.team import (
    STORED,
    InForce,
    accepted,
    approvals_in,
    checked,
    permission_in,
    person_of,
    rules_in,
    store_place,
)
from mainspring.app.team_rules import check_calls
from mainspring.disk.files import make_folder, write_private
from mainspring.errors import UsageError
from mainspring.people.constraints import (
    NamedRules,
    Objection,
    TeamCap,
    against_host,
    against_mode,
    against_model,
    against_tool,
    approval_told,
    caps_of,
    said_by,
)
from mainspring.people.operations import OF_A_MACHINE, OPERATIONS
from mainspring.people.persons import Person, PersonRole, person_named
from mainspring.people.signing import new_key, public_key, signed, signer_of
from mainspring.people.team import parse_team
from mainspring.settings import Config, settings_text

KEY_FILE = "policy.key"


class ShownRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that holds for a person in a folder, with what it says."""

    name: str
    says: tuple[str, ...]
    reason: str = ""


class ShownPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy in force, as a person stands to it in a folder."""

    place: str
    serial: int
    signer: str
    note: str
    project: str
    role: PersonRole | None
    role_from: str
    rules: tuple[ShownRule, ...]
    approvals: tuple[ShownRule, ...] = ()


class PoliciesShown(msgspec.Struct, frozen=True, kw_only=True):
    """Who somebody is, and the policies in force, as they stand to them."""

    person: Person
    policies: tuple[ShownPolicy, ...]


class PolicyQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: may this person do this here, in this mode, with this model, tool or host?"""

    operation: str
    folder: str
    person: str = ""
    claims: tuple[str, ...] = ()
    mode: str = ""
    model: str = ""
    tool: str = ""
    host: str = ""


class PolicyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What they say, and which rule says so; `caps` are what may be spent."""

    is_allowed: bool
    rule: str
    reason: str = ""
    caps: tuple[TeamCap, ...] = ()
    approvals: tuple[ShownRule, ...] = ()
    """Whose yes it takes where a person is asked, for operations that answer."""


def show_policies(config: Config, folder: Path, name: str = "") -> PoliciesShown:
    """The policies in force, for a person (whoever asks, when none is named) in a folder."""
    person = _person(config, name)
    place = str(folder.resolve())
    shown = tuple(_shown(each, person, place) for each in team_policies(config))
    return PoliciesShown(person=person, policies=shown)


def ask_policies(config: Config, asked: PolicyQuestion, draft: Path | None = None) -> PolicyAnswer:
    """What the policies in force say, or one that is only a file yet."""
    if asked.operation not in OPERATIONS:
        raise UsageError(
            f"There is no operation {asked.operation!r}.", remedy="It is called as its command: `goal start`."
        )
    policies = (_draft(draft),) if draft else team_policies(config)
    person = _person(config, asked.person, asked.claims)
    if not policies or asked.operation in OF_A_MACHINE:
        rule = "own machine" if policies else "no policy of a team is in force"
        return PolicyAnswer(is_allowed=True, rule=rule)
    permission = permission_in(policies, person, asked.operation, asked.folder)
    if permission is None or not permission.is_allowed:
        rule, reason = (permission.rule, permission.reason) if permission else ("", "")
        return PolicyAnswer(is_allowed=False, rule=rule, reason=reason)
    rules = rules_in(policies, person, asked.folder)
    if objection := next(_objections(rules, asked), None):
        return PolicyAnswer(is_allowed=False, rule=objection.rule, reason=objection.reason)
    is_answer = OPERATIONS[asked.operation] == "approve"
    approvals = tuple(_approvals(policies, asked.folder)) if is_answer else ()
    return PolicyAnswer(is_allowed=True, rule=permission.rule, caps=caps_of(rules), approvals=approvals)


def sign_policy(config: Config, file: Path, key: Path | None = None) -> str:
    """Signs a file with a key, which is made when there is none; gives the public key."""
    text = settings_text(file)
    if not text:
        raise UsageError(f"{file} is empty, or is not there.", remedy="Write a policy first.")
    _check(text, str(file))
    path = key or config.folder / KEY_FILE
    if not path.exists():
        make_folder(path.parent)
        write_private(path, new_key().encode() + b"\n")
    private = settings_text(path)
    write_private(file, signed(text, private).encode())
    return public_key(private)


async def set_policy(config: Config, file: Path) -> InForce:
    """Puts a signed file in force for all who share the database."""
    if not config.store_url:
        raise UsageError(
            "There is no database that machines share here.",
            remedy="Name the file in the settings: mainspring config set policy.file FILE",
        )
    text = settings_text(file)
    _check(text, str(file))
    signer_of(text, str(file))
    files = shared_files(config)

    def put() -> InForce:
        made = checked(config, store_place(files), text)
        person = person_of(config)
        if made.policy.role_of(person, None)[0] != "admin":
            raise UsageError(
                f"{person.name} would not be an admin any more by this policy, and could not take it back.",
                remedy="Name whoever sets it under [roles] admin.",
            )
        files.write(STORED, text.encode())
        return accepted(config, store_place(files), text)

    return await asyncio.to_thread(put)


def _check(text: str, file: str) -> None:
    """Raises for a policy that is not valid, its rules about calls included."""
    check_calls(parse_team(text, file))


def _draft(file: Path) -> InForce:
    text = settings_text(file)
    _check(text, str(file))
    return InForce(policy=parse_team(text, str(file)), place=str(file), signer="nobody yet")


def _person(config: Config, name: str, claims: tuple[str, ...] = ()) -> Person:
    if not name:
        return person_of(config)
    return msgspec.structs.replace(person_named(name, "named with --as"), claims=claims)


def _shown(each: InForce, person: Person, folder: str) -> ShownPolicy:
    project = each.policy.project_of(folder)
    role, role_from = each.policy.role_of(person, project)
    rules = tuple(
        ShownRule(name=rule.name, says=tuple(said_by(rule)), reason=rule.reason)
        for rule in each.policy.rules_for(person, folder)
    )
    approvals = tuple(
        ShownRule(name=approval.name, says=(approval_told(approval),))
        for approval in each.policy.approvals_for(folder)
    )
    return ShownPolicy(
        place=each.place,
        serial=each.policy.serial,
        signer=each.signer,
        note=each.policy.note,
        project=project.name if project else "",
        role=role,
        role_from=role_from,
        rules=rules,
        approvals=approvals,
    )


def _approvals(policies: tuple[InForce, ...], folder: str) -> Iterator[ShownRule]:
    for name, approval in approvals_in(policies, folder):
        yield ShownRule(name=name, says=(approval_told(approval),))


def _objections(rules: NamedRules, asked: PolicyQuestion) -> Iterator[Objection]:
    checks = (
        (asked.mode, against_mode),
        (asked.model, against_model),
        (asked.tool, against_tool),
        (asked.host, against_host),
    )
    for value, check in checks:
        if value and (found := check(rules, value)):
            yield found

"""Every command of a person or program passes here before it is done, whichever face it came by: it is
decided whether they may, and both are in the log of commands (`mainspring audit`).

The command line, the routes of the server, the tools of MCP and the methods of ACP each call `dispatched`
where they look their table up; what is entered in a chat, or by a program, is part of the command that began
it. What a command changes in a session is logged by the session's recorder (`log_recorded`), with the number
of the event. Commands that only look are logged when they are refused, or when the settings say so.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import msgspec

from mainspring.app.stores import audit_log_of, session_folder_of, team_policies
from mainspring.app.team import InForce, may_have_policy, permission_in, person_of, policies_in, sees
from mainspring.catalog import none_begins_with
from mainspring.disk.ids import new_id
from mainspring.errors import AccessRefused, ConfigError, JournalError, UnknownSession
from mainspring.events import (
    ApprovalAdded,
    ApprovalGiven,
    ArtifactSaved,
    BranchMoved,
    CommandAsked,
    Compacted,
    DocsStarted,
    EffortChosen,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    ModeChosen,
    ModelChosen,
    NoteAdded,
    PageJudged,
    Recorded,
    RewindStarted,
    SessionResumed,
    SessionStarted,
    Undone,
    UserSaid,
)
from mainspring.events.escaping import whole_characters
from mainspring.events.outline import outline
from mainspring.people.audit import AuditEntry
from mainspring.people.operations import OF_A_MACHINE, OPERATIONS
from mainspring.people.roles import Permission, decide
from mainspring.secrets.redaction import redacted
from mainspring.secrets.vault import Vault, secret_variables
from mainspring.settings import Config

_log = logging.getLogger("mainspring")
_LONGEST, _MOST = 300, 20
_HIDDEN = frozenset({"env", "header", "headers"})
"""Arguments of which only the names are logged: their values are made to hold secrets."""

_MAKES_STORE = frozenset({"store init", "store migrate"})
"""What is done before there is a store that could hold a policy."""

_NAMES: dict[type[Event], str] = {
    SessionStarted: "run",
    SessionResumed: "resume",
    UserSaid: "say",
    NoteAdded: "note",
    CommandAsked: "exec",
    ApprovalAdded: "approve",
    ApprovalGiven: "approve",
    ModelChosen: "model",
    ModeChosen: "mode",
    EffortChosen: "effort",
    RewindStarted: "rewind",
    Undone: "undo",
    Compacted: "compact",
    BranchMoved: "land",
    ArtifactSaved: "artifacts save",
    DocsStarted: "docs forge",
    PageJudged: "docs approve",
    GoalSet: "goal start",
    GoalPaused: "goal pause",
    GoalEnded: "goal stop",
}


class CommandCall(msgspec.Struct, frozen=True, kw_only=True):
    """A command as a face got it. `permission` says whether the way by which it came lets it through (a
    device has a role), and by which rule; what a team's policy says is found out here. `folder` is where it
    works, unless it is about a session; `looks_at` is one that somebody elsewhere asks to see."""

    operation: str
    permission: Permission
    arguments: Mapping[str, Any] = {}
    session: str = ""
    folder: str = ""
    looks_at: str = ""
    address: str = ""


def local_permission(operation: str) -> Permission:
    """What this machine itself says to a command that is given at it: yes."""
    return decide("admin", operation, who="You", where="local user")


async def team_permission(config: Config, call: CommandCall) -> Permission | None:
    """What the policies of a team say to a command; None when none is in force, or it is about nothing but
    the machine of whoever gives it."""
    if not may_have_policy(config) or (not config.origin.token and call.operation in OF_A_MACHINE):
        return None
    try:
        policies = await asyncio.to_thread(_policies_over, config, call)
    except ConfigError as error:  # tampered with, or gone: nothing is done, and that is on record
        return Permission(
            is_allowed=False, rule="policy not valid", reason=error.message, remedy=error.remedy
        )
    except JournalError:
        if call.operation in _MAKES_STORE:
            return None
        raise
    if not policies:
        return None
    is_look = OPERATIONS[call.operation] == "see" and not call.session
    folder, person = await _whole(call.looks_at if is_look else call.folder), person_of(config)
    if not call.session:
        return permission_in(policies, person, call.operation, (folder or None) if is_look else folder)
    with suppress(UnknownSession):  # what is done about it says so
        folder = await session_folder_of(config, call.session) or folder
    said = permission_in(policies, person, call.operation, folder)
    if said and not said.is_allowed and not sees(policies, person, folder):
        told = none_begins_with(call.session)
        return msgspec.structs.replace(said, reason=told.message, remedy=told.remedy, is_hidden=True)
    return said


def _policies_over(config: Config, call: CommandCall) -> tuple[InForce, ...]:
    """The policies that a command is held to. What stands in the database need not be sound for an admin at
    this machine who puts another there, which must be the next one of whoever may sign it."""
    try:
        return team_policies(config)
    except ConfigError:
        if call.operation != "policy set" or call.address or config.origin.token:
            raise
        return policies_in(config, None)


async def _whole(folder: str) -> str:
    """A folder as policies name it: where it really is, whatever links and `..` are in what was given."""
    try:
        return await asyncio.to_thread(os.path.realpath, folder) if folder else ""
    except (OSError, ValueError):  # what is done about it says so
        return folder


@asynccontextmanager
async def dispatched(config: Config, call: CommandCall) -> AsyncGenerator[None]:
    """Logs a command that is done in the block; raises `AccessRefused` for one that may not be. A refusal
    that comes up in the block is logged as well."""
    await begin_command(config, call)
    try:
        yield
    except AccessRefused as error:
        await log_refusal(config, call, error)
        raise


async def begin_command(config: Config, call: CommandCall) -> None:
    """Logs a command before it is done, and raises when it may not be: about a session that whoever gives it
    may not see, as if there were none."""
    permission = call.permission
    if permission.is_allowed and (said := await team_permission(config, call)):
        permission = said
    is_look = OPERATIONS[call.operation] == "see"
    if not permission.is_allowed or not is_look or config.settings.audit.reads:
        await _append(config, [_entry(config, call, permission)])
    if permission.is_hidden:
        raise UnknownSession(permission.reason, remedy=permission.remedy)
    if not permission.is_allowed:
        raise AccessRefused(permission.reason, remedy=permission.remedy, rule=permission.rule)


async def log_wrong_token(config: Config, face: str, address: str, path: str, why: str = "") -> None:
    """Logs that somebody came with a token or a code that is not known, or is refused for what `why` says."""
    rule = "login" if why else "no such token or code"
    permission = Permission(is_allowed=False, rule=rule, reason=why)
    asked = CommandCall(operation="login", permission=permission, arguments={"path": path}, address=address)
    origin = msgspec.structs.replace(config.origin, user="", device="", program="", face=face)
    nobody = msgspec.structs.replace(config, origin=origin)
    await _append(nobody, [_entry(nobody, asked, permission)])


async def log_command(config: Config, call: CommandCall) -> None:
    """Logs a command that was decided about elsewhere."""
    await _append(config, [_entry(config, call, call.permission)])


async def log_refusal(config: Config, call: CommandCall, error: AccessRefused) -> None:
    """Logs that a command was refused while it was done, by a rule that looked closer."""
    permission = Permission(is_allowed=False, rule=error.rule, reason=error.message)
    if error.rule != call.permission.rule or call.permission.is_allowed:
        await _append(config, [_entry(config, call, permission)])


async def log_recorded(config: Config, session: str, recorded: Sequence[Recorded]) -> None:
    """Logs what commands changed in a session."""
    await _append(
        config,
        [
            AuditEntry(
                id=new_id(),
                kind="recorded",
                operation=_NAMES.get(type(each.event), type(each.event).__name__),
                origin=getattr(each.event, "origin", None) or config.origin,
                session=session,
                event=each.seq,
                arguments={
                    name: str(value)[:_LONGEST]
                    for name, value in outline(each.event).items()
                    if name != "origin"
                },
            )
            for each in recorded
        ],
    )


def _entry(config: Config, call: CommandCall, permission: Permission) -> AuditEntry:
    return AuditEntry(
        id=new_id(),
        kind="asked",
        operation=call.operation,
        decision="allowed" if permission.is_allowed else "refused",
        rule=permission.rule,
        reason=permission.reason,
        origin=config.origin,
        address=call.address,
        session=whole_characters(call.session),
        arguments={name: _shown(name, value) for name, value in call.arguments.items()},
    )


def _shown(name: str, value: Any) -> Any:
    """An argument as it is logged: short, and of what holds secrets only the names."""
    match value:
        case bool() | int() | float() | None:
            return value
        case str():
            value = whole_characters(value)
            return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value)} characters)"
        case tuple() | list():
            given = cast("Sequence[object]", value)[:_MOST]
            return [_name_of(str(each)) if name in _HIDDEN else _shown("", each) for each in given]
        case _:
            return _shown("", str(value))


def _name_of(text: str) -> str:
    return f"{text.partition('=')[0].partition(':')[0]} (value not logged)"


async def _append(config: Config, entries: Sequence[AuditEntry]) -> None:
    named = {
        key: str(value)
        for entry in entries
        for key, value in (*entry.arguments.items(), *_settings_in(entry.arguments))
    }
    vault = Vault({**config.secrets, **secret_variables(named)})
    bodies = [msgspec.json.encode(redacted(each, vault)) for each in entries]
    try:
        await audit_log_of(config).add(bodies)
    except JournalError as error:
        if config.settings.audit.required:
            raise
        _log.warning("mainspring: this command is not in the audit log. %s", error)


def _settings_in(arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The value of `config set KEY VALUE` under the name of its key, which may say that it is a secret."""
    key, value = arguments.get("key"), arguments.get("value")
    return [(str(key).rpartition(".")[2], value)] if key and value else []

"""Permissions that a person gave, with their scope and expiry, kept in one private file.

A grant is for one exact call, for a session, for a project or for ever, and covers a command pattern, a path,
a host or a whole tool. It lifts an `ask`, never a `deny`, and a built-in danger only when it names it. The
file is replaced whole, while nobody else changes it, so neither a crash nor a second process can tear it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from mainspring.disk.formats import refuse_newer_json
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import ConfigError
from mainspring.events import ApprovalAsked, ApprovalGiven, AskedScript, Offer, Scope

_FORMAT = 3
_FILE = "grants.json"


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a person allowed. Times are microseconds since 1970; `expires_us` None is no expiry. It holds as
    long as the script that the command names has this hash; `script_text` is what the person saw.
    `arguments` are patterns, by name."""

    id: str
    scope: Scope
    tool: str
    command: str = ""
    path: str = ""
    host: str = ""
    accepts: tuple[str, ...] = ()
    session: str = ""
    workspace: str = ""
    arguments_sha256: str = ""
    given_us: int = 0
    expires_us: int | None = None
    by: str = "user"
    script_sha256: str = ""
    script_text: str = ""
    arguments: dict[str, str] = {}

    def is_live(self, *, session: str, workspace: str, now_us: int) -> bool:
        if self.expires_us is not None and now_us >= self.expires_us:
            return False
        match self.scope:
            case "once":
                return bool(self.arguments_sha256) and self.session == session != ""
            case "session":
                return self.session == session != ""
            case "project":
                return self.workspace == workspace != ""
            case "forever":
                return True


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file; its version 1 was the list alone."""

    grants: tuple[Grant, ...]
    format_version: int = _FORMAT


class GrantFile:
    """The grants of one home, or of all machines that share these files."""

    def __init__(self, files: SharedFiles) -> None:
        self._files = files

    def all(self) -> tuple[Grant, ...]:
        try:
            return self._decoded(self._files.read(_FILE))
        except OSError as error:
            raise self._unreadable(error) from error

    def live(self, *, session: str, workspace: str, now_us: int) -> tuple[Grant, ...]:
        return tuple(
            grant
            for grant in self.all()
            if grant.is_live(session=session, workspace=workspace, now_us=now_us)
        )

    def add(self, grant: Grant) -> Grant:
        """Stores a grant and gives it an id; raises `ConfigError` when its scope lacks what bounds it."""
        problem = _unbounded(grant)
        if problem:
            raise ConfigError(
                f"This grant cannot be saved: {problem}.",
                remedy="Name the session, project or command that it applies to.",
            )
        kept = msgspec.structs.replace(grant, id=grant.id or secrets.token_hex(6))

        def added(before: tuple[Grant, ...]) -> tuple[Grant, ...]:
            return (*(each for each in before if each.id != kept.id), kept)

        self._change(added)
        return kept

    def revoke(self, grant_id: str) -> bool:
        """Takes a grant back; False when there was none (any more), so of two users of it one gets True."""
        is_found = False

        def revoked(before: tuple[Grant, ...]) -> tuple[Grant, ...]:
            nonlocal is_found
            after = tuple(grant for grant in before if grant.id != grant_id)
            is_found = len(after) < len(before)
            return after

        self._change(revoked)
        return is_found

    def _change(self, change: Callable[[tuple[Grant, ...]], tuple[Grant, ...]]) -> None:
        def changed(data: bytes | None) -> bytes | None:
            before = self._decoded(data)
            if (after := change(before)) == before:
                return data
            return msgspec.json.format(msgspec.json.encode(_Content(after)), indent=1) + b"\n"

        self._files.change(_FILE, changed)

    def _decoded(self, data: bytes | None) -> tuple[Grant, ...]:
        if data is None:
            return ()
        refuse_newer_json(self._files.shown(_FILE), data, _FORMAT)
        try:
            found = msgspec.json.decode(data, type=tuple[Grant, ...] | _Content)
        except msgspec.MsgspecError as error:
            raise self._unreadable(error) from error
        return found.grants if isinstance(found, _Content) else found

    def _unreadable(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"The grants in {self._files.shown(_FILE)} cannot be read: {error}.",
            remedy="Correct the file or delete it; without it every question is asked again.",
        )


def arguments_sha256(arguments: Mapping[str, Any] | str) -> str:
    """The hash that binds an answer to a call: of the canonical JSON of its arguments.

    Text that is not JSON is hashed as it is, so that it too has exactly one hash.
    """
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            return hashlib.sha256(b"text:" + arguments.encode("utf-8", "surrogatepass")).hexdigest()
    return hashlib.sha256(msgspec.json.encode(arguments, order="deterministic")).hexdigest()


def grants_of(
    asked: ApprovalAsked,
    given: ApprovalGiven,
    *,
    session: str,
    workspace: str,
    exactly_sha256: str,
    now_us: int,
) -> tuple[Grant, ...]:
    """What a yes for more than once is kept as. The same answer always gives the same ids, so it can be kept
    twice without harm. `exactly_sha256` is the hash of the call as it runs."""
    return tuple(
        Grant(
            id=hashlib.sha256(f"{session}/{asked.call}/{number}".encode()).hexdigest()[:12],
            scope=given.scope,
            tool=asked.tool,
            command=offer.command,
            path=offer.path,
            host=offer.host,
            accepts=offer.accepts,
            session=session if given.scope == "session" else "",
            workspace=workspace if given.scope in ("session", "project") else "",
            arguments_sha256="" if asked.offers else exactly_sha256,
            given_us=now_us,
            expires_us=given.expires_us,
            by=given.by,
            script_sha256=offer.script_sha256 if asked.offers else scripts_sha256(asked.scripts),
            arguments=arguments_pattern(given.pattern) or {} if offer == Offer() else {},
            script_text=next((s.text for s in asked.scripts if s.sha256 == offer.script_sha256), ""),
        )
        for number, offer in enumerate(offered(asked, given.pattern) or (Offer(),))
    )


def scripts_sha256(scripts: Iterable[AskedScript]) -> str:
    """One hash for all scripts of a call; empty when it names none."""
    found = [script.sha256 for script in scripts]
    return hashlib.sha256("\n".join(found).encode()).hexdigest() if found else ""


def offered(asked: ApprovalAsked, pattern: str = "") -> tuple[Offer, ...]:
    """What was offered, or the one pattern that a person gave instead, with the dangers of all."""
    if not pattern or not asked.offers or asked.offers == (Offer(accepts=asked.offers[0].accepts),):
        return asked.offers
    accepts = tuple(dict.fromkeys(name for offer in asked.offers for name in offer.accepts))
    kind = next(kind for kind in ("command", "path", "host") if getattr(asked.offers[0], kind))
    return (Offer(**{kind: pattern}, accepts=accepts),)


def arguments_pattern(text: str) -> dict[str, str] | None:
    """The patterns in `operation=read* name=x`; None when the text is not written so."""
    if not is_pattern(text) or not all(re.match(r"\w+=", word) for word in shlex.split(text)):
        return None
    return dict(word.split("=", 1) for word in shlex.split(text))


def is_pattern(text: str) -> bool:
    """Whether a command pattern can be read: its quotes close."""
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


def _unbounded(grant: Grant) -> str:
    if grant.scope in ("once", "session") and not grant.session:
        return f"a grant for {grant.scope} needs a session"
    if grant.scope == "once" and not grant.arguments_sha256:
        return "a grant for once needs the hash of the call"
    if grant.scope == "project" and not grant.workspace:
        return "a grant for the project needs a workspace"
    if not grant.tool or sum(map(bool, (grant.command, grant.path, grant.host))) > 1:
        return "it must name a tool, and at most one of command, path and host"
    if grant.command and not is_pattern(grant.command):
        return f"the quotes in {grant.command!r} do not close"
    return ""

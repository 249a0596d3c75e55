"""What a project brings and would run on this machine (servers, hooks, plugins, linters, language servers):
approved by a person once for its content, kept in one private file.

An approval names the file that brings it, the entry in it, and the hash of the text that the person saw. When
the text changes, it is asked for again, with a difference. Nothing is approved by default.
"""

from __future__ import annotations

import difflib
import hashlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.disk.files import locked, write_private
from mainspring.disk.formats import refuse_newer_json
from mainspring.errors import ConfigError

_FORMAT = 1

TrustKind = Literal["mcp", "command", "agent", "hook", "plugin", "linter", "language-server"]
TrustState = Literal["trusted", "changed", "new"]


class TrustSubject(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be approved: an entry (`name`) of a file. `text` is all that decides what it runs."""

    kind: TrustKind
    path: str
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogateescape")).hexdigest()


class Trusted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An approval, with the text that it was given for."""

    id: str
    kind: TrustKind
    path: str
    name: str
    sha256: str
    text: str
    given_us: int
    by: str = "user"


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trusted: tuple[Trusted, ...]
    format_version: int = _FORMAT


class TrustFile:
    """The approvals under one home."""

    def __init__(self, home: Path) -> None:
        self._path = home / "trust.json"

    def all(self) -> tuple[Trusted, ...]:
        try:
            data = self._path.read_bytes()
            refuse_newer_json(self._path, data, _FORMAT)
            return msgspec.json.decode(data, type=_Content).trusted
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(
                f"The approvals in {self._path} cannot be read: {error}.",
                remedy="Correct the file or delete it; without it everything is asked again.",
            ) from error

    def last(self, subject: TrustSubject) -> Trusted | None:
        """The newest approval of this entry, whatever it held then."""
        return next((each for each in reversed(self.all()) if _is_same_entry(each, subject)), None)

    def state(self, subject: TrustSubject) -> TrustState:
        return trust_state(self.all(), subject)

    def add(self, subject: TrustSubject, *, now_us: int, by: str = "user") -> Trusted:
        """Approves what a person saw; an older content of the same entry is approved no longer."""
        kept = Trusted(
            id=secrets.token_hex(6),
            kind=subject.kind,
            path=subject.path,
            name=subject.name,
            sha256=subject.sha256,
            text=subject.text,
            given_us=now_us,
            by=by,
        )
        with locked(self._path):
            self._write((*(each for each in self.all() if not _is_same_entry(each, subject)), kept))
        return kept

    def revoke(self, trust_id: str) -> bool:
        """Takes an approval back; False when there was none."""
        with locked(self._path):
            before = self.all()
            after = tuple(each for each in before if each.id != trust_id)
            if len(after) < len(before):
                self._write(after)
            return len(after) < len(before)

    def _write(self, trusted: tuple[Trusted, ...]) -> None:
        write_private(
            self._path, msgspec.json.format(msgspec.json.encode(_Content(trusted)), indent=1) + b"\n"
        )


def trust_state(trusted: Sequence[Trusted], subject: TrustSubject) -> TrustState:
    """How a subject stands by these approvals."""
    known = [each for each in trusted if _is_same_entry(each, subject)]
    sha256 = subject.sha256 if known else ""
    is_trusted = any(each.sha256 == sha256 for each in known)
    return "trusted" if is_trusted else "changed" if known else "new"


def changes(before: str, now: str) -> str:
    """What is different from the text that was approved, as a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "approved", "now", lineterm="", n=3)
    return "\n".join(lines)


def _is_same_entry(trusted: Trusted, subject: TrustSubject) -> bool:
    return (trusted.kind, trusted.path, trusted.name) == (subject.kind, subject.path, subject.name)

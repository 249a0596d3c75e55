"""What people approved that projects bring, for every face: servers today, hooks and plugins alike."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from mainspring.approvals.trust import Trusted, TrustFile, TrustState, TrustSubject, changes
from mainspring.errors import UsageError
from mainspring.mcp.servers import list_servers
from mainspring.settings import Config


class TrustEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a project brings, whether it was approved, and what changed since."""

    subject: TrustSubject
    state: TrustState
    diff: str = ""


def list_trusted(config: Config) -> tuple[Trusted, ...]:
    return TrustFile(config.home).all()


def trust_of(config: Config, trust_id: str) -> Trusted:
    """The one approval whose id begins so."""
    found = [each for each in list_trusted(config) if each.id.startswith(trust_id)]
    if len(found) != 1:
        raise UsageError(
            f"There is no approval {trust_id!r}."
            if not found
            else f"Several approvals begin with {trust_id!r}.",
            remedy="`mainspring trust list` lists them.",
        )
    return found[0]


def revoke_trust(config: Config, trust_id: str) -> Trusted:
    """Takes an approval back."""
    found = trust_of(config, trust_id)
    TrustFile(config.home).revoke(found.id)
    return found


def entry_of(config: Config, subject: TrustSubject) -> TrustEntry:
    file = TrustFile(config.home)
    state, last = file.state(subject), file.last(subject)
    diff = changes(last.text, subject.text) if last and state == "changed" else ""
    return TrustEntry(subject=subject, state=state, diff=diff)


def brought_by(config: Config, workspace: Path) -> list[TrustEntry]:
    """All that a project brings and would run."""
    found = list_servers(workspace, config.settings.mcp, config.environment)
    return [entry_of(config, server.subject) for server in found.servers if server.subject]


def approve(config: Config, subject: TrustSubject) -> Trusted:
    """Approves what a person saw."""
    by = config.origin.user or "user"
    return TrustFile(config.home).add(subject, now_us=time.time_ns() // 1000, by=by)

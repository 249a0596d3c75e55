"""The language servers of one session: those that the project configures, that are installed, and that a
person approved where they are code of the project. They are started when first asked, and ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from mainspring.approvals.trust import TrustSubject
from mainspring.checks import ConfinedBy
from mainspring.checks.language_server import LanguageServer
from mainspring.checks.programs import configured, folders_of, subject_of
from mainspring.checks.server_facts import server_rows
from mainspring.checks.settings import ChecksSettings
from mainspring.sandbox.policy import Confinement


class SessionLanguageServers:
    """`is_trusted` says whether a person approved code of the project."""

    def __init__(
        self,
        settings: ChecksSettings,
        environment: Mapping[str, str],
        is_trusted: Callable[[TrustSubject], bool],
    ) -> None:
        self.rows = server_rows(settings)
        self._environment = environment
        self._is_trusted = is_trusted
        self._servers: dict[tuple[str, ...], LanguageServer] = {}

    async def usable(
        self, confinement: Confinement, sandbox: ConfinedBy, paths: Iterable[str] = ()
    ) -> tuple[list[LanguageServer], dict[str, str]]:
        """Those that may be asked about files of a workspace, and why others may not, by their names."""
        found: list[LanguageServer] = []
        missing: dict[str, str] = {}
        place = confinement.workspace
        folders = folders_of(paths)
        rows = await asyncio.to_thread(lambda: [*configured(self.rows, place, self._environment, folders)])
        for facts, folder, config, program in rows:
            subject = (
                subject_of("language-server", facts, program, config, place, folder) if program else None
            )
            if program and (subject is None or self._is_trusted(subject)):
                root = None if facts.is_nesting and subject is None else folder
                key = (facts.name, str(program), subject.sha256 if subject else "", str(place), root or "")
                if key not in self._servers:
                    self._servers[key] = LanguageServer(facts, program, confinement, sandbox, root)
                if self._servers[key] not in found:
                    found.append(self._servers[key])
            elif not facts.is_ours:
                approve = f"not approved; a person can: mainspring trust add {facts.name!r}"
                missing[facts.name] = approve if program else f"{facts.program} is not installed"
        return found, missing

    def changed(self, kinds: Mapping[str, int]) -> None:
        """Tells those that run which files were made (1), changed (2) or deleted (3)."""
        for server in self._servers.values():
            server.changed(kinds)

    async def close(self) -> None:
        servers: Sequence[LanguageServer] = [*self._servers.values()]
        self._servers.clear()
        await asyncio.gather(*(server.close() for server in servers))

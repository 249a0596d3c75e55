"""Which files a goal made, by content, iteration and the command that made them."""

from __future__ import annotations

import msgspec

from mainspring.app.operations.sessions import journal_of
from mainspring.app.stores import sessions_of
from mainspring.errors import JournalError, UsageError
from mainspring.evidence.artifacts import Artifact, read_artifacts
from mainspring.evidence.kept import KINDS
from mainspring.settings import Config


class SessionArtifacts(msgspec.Struct, frozen=True, kw_only=True):
    """`made` are those that the goal made and that are still there; `all` also what was there before, and
    what is gone."""

    session: str
    made: tuple[Artifact, ...]
    all: tuple[Artifact, ...]


async def artifacts_of(config: Config, session: str = "") -> SessionArtifacts:
    """The artifacts of a session, by default of the newest that has any."""
    async with journal_of(config, session or await _newest(config)) as reader:
        artifacts = await read_artifacts(reader)
        every = tuple(sorted(artifacts.all, key=lambda row: row.path))
        return SessionArtifacts(session=reader.session, made=tuple(artifacts.made), all=every)


async def _newest(config: Config) -> str:
    for row in await sessions_of(config).rows():
        try:
            async with journal_of(config, row.id) as reader:
                if await reader.last(*KINDS) is not None:
                    return row.id
        except JournalError:
            continue  # a damaged session is not the one that was meant
    raise UsageError("No session has artifacts yet.", remedy="`mainspring sessions` lists the sessions.")

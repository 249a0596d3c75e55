"""Sessions as files that can be taken elsewhere, and whether a journal is sound."""

from __future__ import annotations

import platform
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainspring import __version__
from mainspring.app.operations.sessions import journal_of, pages
from mainspring.app.records import vault_of
from mainspring.app.stores import sessions_of
from mainspring.config import Config
from mainspring.events import Blob, ModelChosen, Recorded, SessionStarted
from mainspring.journal import Verdict
from mainspring.journal.file import JournalFile
from mainspring.journal.transfer import Header, export
from mainspring.workspace.git import Git


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What stands at the head of a document about a session. Zero and empty when nothing is recorded."""

    session: str
    events: int = 0
    until_us: int = 0
    started_us: int = 0
    workspace: str = ""
    model: str = ""


class Export:
    """A session that is being written down, as long as its journal is open. `environment` says where: enough
    to tell whether a difference may come from there."""

    def __init__(self, file: JournalFile, config: Config) -> None:
        self._file = file
        self.facts = _facts(file)
        self.environment = _environment(self.facts, config)

    def write(self, to: BinaryIO, *, blobs: Path | None = None, readable_only: bool = False) -> Header:
        """The whole session as JSON lines, which can be imported; its blobs in a folder if one is given."""
        return export(
            self._file,
            to,
            blobs_beside=blobs,
            readable_only=readable_only,
            environment=self.environment,
        )

    def events(self) -> Iterator[Recorded]:
        return pages(self._file)

    def get(self, blob: Blob) -> bytes:
        return self._file.get(blob)


@contextmanager
def exporting(config: Config, session: str) -> Generator[Export]:
    with journal_of(config, session) as file:
        yield Export(file, config)


def verify_session(config: Config, session: str) -> Verdict:
    """Checks the hash chain and every blob."""
    with journal_of(config, session) as file:
        return file.verify()


def _facts(file: JournalFile) -> SessionFacts:
    started, model, last = file.last("SessionStarted"), file.last("ModelChosen"), file.last()
    begun = started.event if started and isinstance(started.event, SessionStarted) else None
    return SessionFacts(
        session=file.session,
        events=last.seq if last else 0,
        until_us=last.time_us if last else 0,
        started_us=started.time_us if started and begun else 0,
        workspace=begun.workspace if begun else "",
        model=model.event.model if model and isinstance(model.event, ModelChosen) else "",
    )


def _environment(facts: SessionFacts, config: Config) -> Mapping[str, str]:
    found = {
        "mainspring": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if facts.workspace:
        vault = vault_of(sessions_of(config), facts.session, config)
        folder = Path(vault.expand(facts.workspace))
        git = Git(folder, config.environment)
        if folder.is_dir() and (commit := git.text("rev-parse", "--verify", "HEAD", check=False)):
            found["commit"] = commit
    return found

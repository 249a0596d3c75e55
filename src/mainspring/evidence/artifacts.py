"""The artifacts of a goal: which files it made, changed, moved and took away, by their content.

A fold of `ArtifactsChanged`, and the comparison of it with what lies on disk now. Pure; who looks at the
disk is `evidence/artifact_scan.py`. A file that is not hashed (too large, a secret, always changing) is told
apart by size and time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from mainspring.events import (
    ArtifactChange,
    ArtifactsChanged,
    AssistantSaid,
    Blob,
    CallAsked,
    FilesChanged,
    Recorded,
)
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.journal import JournalReader, events_in
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault

KIND = "ArtifactsChanged"
LISTED_FROM = 200
SHOWN = 50
_MAX_COMMAND = 300
_DECODE = msgspec.json.Decoder(tuple[ArtifactChange, ...]).decode


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file as the journal knows it. `iteration` is the last that changed it, 0 before the goal began."""

    path: str
    sha256: str = ""
    size: int = 0
    mtime_us: int = 0
    iteration: int = 0
    made_by: str = ""
    renamed_from: str = ""
    is_deleted: bool = False
    is_new: bool = False


class SeenFile(msgspec.Struct, frozen=True, gc=False):
    """A file as it lies on disk."""

    sha256: str
    size: int
    mtime_us: int


class Artifacts:
    """The fold. `previews` and `frozen` are kept contents by their hash; `first` are the files before the
    goal, by path."""

    def __init__(self, vault: Vault | None = None) -> None:
        self._vault = vault
        self._known: dict[str, Artifact] = {}
        self.previews: dict[str, Blob] = {}
        self.frozen: dict[str, Blob] = {}
        self.first: dict[str, Artifact] = {}
        self.is_begun = False

    @property
    def all(self) -> tuple[Artifact, ...]:
        """Everything on record, what is gone included."""
        return tuple(self._known.values())

    @property
    def present(self) -> dict[str, Artifact]:
        return {path: artifact for path, artifact in self._known.items() if not artifact.is_deleted}

    @property
    def made(self) -> tuple[Artifact, ...]:
        """What the goal made or changed and is there, the newest first."""
        made = [
            artifact for artifact in self._known.values() if artifact.iteration and not artifact.is_deleted
        ]
        return tuple(sorted(made, key=lambda artifact: (-artifact.iteration, artifact.path)))

    @property
    def originals(self) -> tuple[str, ...]:
        """The files from before the goal that are what they were."""
        return tuple(path for path in self.first if self.is_original(path))

    @property
    def changed(self) -> tuple[str, ...]:
        """The files that are not what they were before the goal: new ones, and those that are gone since."""
        return tuple(
            path
            for path, artifact in self._known.items()
            if not self.is_original(path) and (path in self.first or not artifact.is_deleted)
        )

    def is_original(self, path: str) -> bool:
        """Whether a file is there and is what it was before the goal."""
        now, first = self._known.get(path), self.first.get(path)
        if now is None or first is None or now.is_deleted:
            return False
        return not now.iteration or (bool(first.sha256) and first.sha256 == now.sha256)

    def apply(self, event: ArtifactsChanged, listing: bytes | None = None) -> None:
        """Takes an event in; `listing` is the content of its listing, when it has one."""
        self.is_begun = True
        self.previews |= {blob.sha256: blob for blob in event.previews}
        self.frozen |= {blob.sha256: blob for blob in event.frozen}
        for recorded in event.changes if listing is None else _DECODE(listing):
            change = expanded(recorded, self._vault) if self._vault else recorded
            self._known[change.path] = _artifact(change, event.iteration)
            if not event.iteration:
                self.first[change.path] = self._known[change.path]
            if change.kind == "renamed":
                gone = self._known.get(change.renamed_from, Artifact(path=change.renamed_from))
                self._known[change.renamed_from] = msgspec.structs.replace(
                    gone, is_deleted=True, iteration=event.iteration, made_by=change.made_by
                )


async def read_artifacts(journal: JournalReader, vault: Vault | None = None) -> Artifacts:
    """The artifacts that a journal knows; with a vault by their paths as they are on disk."""
    artifacts = Artifacts(vault)
    async for recorded in events_in(journal, kinds=(KIND,)):
        if isinstance(recorded.event, ArtifactsChanged):
            listing = recorded.event.listing
            artifacts.apply(recorded.event, await journal.get(listing) if listing else None)
    return artifacts


def compare(
    known: Mapping[str, Artifact], now: Mapping[str, SeenFile], made_by: Mapping[str, str]
) -> list[ArtifactChange]:
    """What is otherwise than on record, by path."""
    changes: dict[str, ArtifactChange] = {}
    for path, seen in now.items():
        old = known.get(path)
        if old is None:
            changes[path] = _change(path, "new", seen, made_by)
        elif not _is_same(old, seen):
            changes[path] = _change(path, "modified", seen, made_by)
    gone = [artifact for path, artifact in known.items() if path not in now]
    for old, path in _renames(gone, [change for change in changes.values() if change.kind == "new"]):
        changes[path] = _change(path, "renamed", now[path], made_by, renamed_from=old.path)
    moved = {change.renamed_from for change in changes.values()}
    for old in gone:
        if old.path not in moved:
            changes[old.path] = ArtifactChange(
                path=old.path, kind="deleted", made_by=made_by.get(old.path, "")
            )
    return [changes[path] for path in sorted(changes)]


def summed(iteration: int, changes: list[ArtifactChange]) -> ArtifactsChanged:
    """The event that says it, without listing and previews; of many changes it holds the first."""
    counts = Counter(change.kind for change in changes)
    shown = changes if len(changes) <= LISTED_FROM else changes[:SHOWN]
    return ArtifactsChanged(
        iteration=iteration,
        new=counts["new"],
        modified=counts["modified"],
        deleted=counts["deleted"],
        renamed=counts["renamed"],
        changes=tuple(shown),
    )


def listing_of(changes: list[ArtifactChange]) -> bytes:
    return msgspec.json.encode(changes)


def makers(events: Iterable[Recorded], vault: Vault | None = None) -> dict[str, str]:
    """The command that was running when each file last changed."""
    commands: dict[str, str] = {}
    made: dict[str, str] = {}
    for recorded in events:
        match recorded.event:
            case AssistantSaid() as said:
                commands |= {call.call: command_of(call) for call in said.calls}
            case FilesChanged() as changed:
                names = (commands.get(call, "") for call in changed.calls)
                command = "; ".join(dict.fromkeys(name for name in names if name))[:_MAX_COMMAND]
                for change in (expanded(changed, vault) if vault else changed).changes:
                    for path in filter(None, (change.path, change.renamed_from)):
                        if command:
                            made[path] = command
            case _:
                pass
    return made


def command_of(call: CallAsked) -> str:
    """The command line that a call runs; else the name of its tool."""
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, Any])
    except DECODE_ERRORS:
        return call.name
    for key in ("command", "cmd"):
        if isinstance(text := arguments.get(key), str) and text.strip():
            return " ".join(text.split())
    return call.name


def _renames(gone: list[Artifact], new: list[ArtifactChange]) -> list[tuple[Artifact, str]]:
    """A content that went away here and came there was moved; the same name is the better match."""
    by_content: dict[str, list[Artifact]] = {}
    for old in gone:
        if old.sha256 and old.size:
            by_content.setdefault(old.sha256, []).append(old)
    pairs: list[tuple[Artifact, str]] = []
    for change in new:
        if candidates := by_content.get(change.sha256):
            name = change.path.rpartition("/")[2]
            best = next((old for old in candidates if old.path.rpartition("/")[2] == name), candidates[0])
            candidates.remove(best)
            pairs.append((best, change.path))
    return pairs


def _is_same(old: Artifact, seen: SeenFile) -> bool:
    if old.sha256 and seen.sha256:
        return old.sha256 == seen.sha256
    return (old.size, old.mtime_us) == (seen.size, seen.mtime_us)


def _change(
    path: str,
    kind: Literal["new", "modified", "renamed"],
    seen: SeenFile,
    made_by: Mapping[str, str],
    renamed_from: str = "",
) -> ArtifactChange:
    return ArtifactChange(
        path=path,
        kind=kind,
        sha256=seen.sha256,
        size=seen.size,
        mtime_us=seen.mtime_us,
        renamed_from=renamed_from,
        made_by=made_by.get(path, ""),
    )


def _artifact(change: ArtifactChange, iteration: int) -> Artifact:
    return Artifact(
        path=change.path,
        sha256=change.sha256,
        size=change.size,
        mtime_us=change.mtime_us,
        iteration=iteration,
        made_by=change.made_by,
        renamed_from=change.renamed_from,
        is_deleted=change.kind == "deleted",
        is_new=change.kind == "new",
    )

"""Outputs of a session whose contents the journal keeps: by name, in versions, each by its content.

A fold of `ArtifactSaved` (a person kept it) and of the small files that a goal made (`ArtifactsChanged`). A
content that follows itself is no new version.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mainspring.events import ArtifactChange, ArtifactSaved, ArtifactsChanged, Blob
from mainspring.journal import JournalReader, events_in

KINDS = ("ArtifactSaved", "ArtifactsChanged")
_LISTING = msgspec.json.Decoder(tuple[ArtifactChange, ...]).decode


class KeptVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an output, counted from 1; `seq` is the event that keeps it, `by` who kept it."""

    session: str
    name: str
    version: int
    blob: Blob
    seq: int
    time_us: int
    by: Literal["person", "goal"] = "person"
    note: str = ""
    iteration: int = 0


async def read_kept(journal: JournalReader) -> list[KeptVersion]:
    """Every version that the journal keeps, the oldest first."""
    kept: dict[str, list[KeptVersion]] = {}
    async for recorded in events_in(journal, kinds=KINDS):
        found: list[tuple[str, Blob, str]] = []
        by, iteration = "person", 0
        match recorded.event:
            case ArtifactSaved() as saved:
                found.append((saved.name, saved.blob, saved.note))
            case ArtifactsChanged() as changed:
                by, iteration = "goal", changed.iteration
                blobs = {blob.sha256: blob for blob in changed.previews}
                rows = _LISTING(await journal.get(changed.listing)) if changed.listing else changed.changes
                found += [(row.path, blobs[row.sha256], "") for row in rows if row.sha256 in blobs]
            case _:
                pass
        for name, blob, note in found:
            versions = kept.setdefault(name, [])
            if versions and versions[-1].blob.sha256 == blob.sha256:
                continue
            versions.append(
                KeptVersion(
                    session=journal.session,
                    name=name,
                    version=len(versions) + 1,
                    blob=blob,
                    seq=recorded.seq,
                    time_us=recorded.time_us,
                    by=by,
                    note=note,
                    iteration=iteration,
                )
            )
    return sorted((each for versions in kept.values() for each in versions), key=lambda each: each.seq)

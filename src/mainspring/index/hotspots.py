"""Where sessions of a project worked again and again, and what they wrote down there: a fold of their
journals. Pure; paths are those of the repository."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from mainspring.events import ChangesChecked, Event, FilesChanged, Remembered

KINDS = ("FilesChanged", "ChangesChecked", "Remembered")
_LEAST_SESSIONS = 2
_MAX_NOTES = 3
_SHOWN = 160
_IN_MAP = 5


class Hotspot(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions changed a file and how often, how often checks found errors in it, and what was
    remembered that names it, the newest first."""

    path: str
    sessions: int = 0
    changes: int = 0
    errors: int = 0
    notes: tuple[str, ...] = ()


class HotspotFold:
    """Takes the sessions one after the other, the newest first."""

    def __init__(self) -> None:
        self._sessions: Counter[str] = Counter()
        self._changes: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._notes: dict[str, None] = {}

    def add_session(self, events: Iterable[Event], prefix: str = "") -> None:
        """`prefix` leads from the repository to the workspace of the session."""
        changed: Counter[str] = Counter()
        notes: list[str] = []
        for event in events:
            match event:
                case FilesChanged(changes=changes):
                    changed.update(prefix + each.path for each in changes)
                case ChangesChecked(files=files):
                    self._errors.update(
                        prefix + file.path
                        for file in files
                        if any(each.severity == "error" for each in file.findings)
                    )
                case Remembered(text=text):
                    notes.append(" ".join(text.split())[:_SHOWN])
                case _:
                    pass
        self._sessions.update(changed.keys())
        self._changes += changed
        self._notes |= dict.fromkeys(reversed(notes))

    def hotspots(self, paths: Sequence[str]) -> list[Hotspot]:
        """Of these files those that matter: changed by several sessions, with errors, or named in a note."""
        found = [self._of(path) for path in paths]
        shown = [each for each in found if each.sessions >= _LEAST_SESSIONS or each.errors or each.notes]
        return sorted(shown, key=lambda each: (-each.sessions, -each.changes, -each.errors, each.path))

    def _of(self, path: str) -> Hotspot:
        notes = [note for note in self._notes if path in note or path.rpartition("/")[2] in note.split()]
        return Hotspot(
            path=path,
            sessions=self._sessions[path],
            changes=self._changes[path],
            errors=self._errors[path],
            notes=tuple(notes[:_MAX_NOTES]),
        )


def hotspot_line(found: Sequence[Hotspot]) -> str:
    """For a map."""
    shown = [each for each in found if each.sessions >= _LEAST_SESSIONS or each.notes][:_IN_MAP]
    told = "; ".join(hotspot_text(each) for each in shown)
    return f"earlier sessions: {told}" if told else ""


def hotspot_text(each: Hotspot) -> str:
    errors = f", errors found {each.errors} times" if each.errors else ""
    note = f", noted: {each.notes[0]}" if each.notes else ""
    return f"{each.path} changed by {each.sessions} sessions{errors}{note}"

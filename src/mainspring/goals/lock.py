"""One loop per workspace: a lock that ends with its process, and the name of the goal that holds it."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mainspring.errors import JournalOwned
from mainspring.journal.owner import own, owner_of

_FOLDER = "workspaces"
_NAME = "goal"


class WorkspaceTaken(JournalOwned):
    """Another goal works in the same folder."""


class Held:
    """The right to work in a folder; `name` says for which goal."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def name(self, goal: str) -> None:
        (self._place / _NAME).write_text(goal, "utf-8")


@contextmanager
def workspace_held(home: Path, workspace: Path) -> Generator[Held]:
    """Keeps every other loop out of the workspace. A lock whose process is dead is taken over."""
    place = home / _FOLDER / hashlib.sha256(bytes(workspace.resolve())).hexdigest()[:24]
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        owned = own(place, workspace.name)
    except JournalOwned as error:
        raise _taken(place, workspace) from error
    try:
        yield Held(place)
    finally:
        (place / _NAME).unlink(missing_ok=True)
        owned.release()


def _taken(place: Path, workspace: Path) -> WorkspaceTaken:
    owner = owner_of(place)
    who = f"process {owner.pid} on {owner.host}" if owner else "another process"
    try:
        goal = (place / _NAME).read_text("utf-8")
    except FileNotFoundError:
        goal = ""
    stop = f", or stop it first: mainspring goal stop {goal}" if goal else ""
    return WorkspaceTaken(
        f"The goal {goal or '(just starting)'} already works in {workspace} ({who}).",
        remedy=f"Wait for it{stop}.",
    )

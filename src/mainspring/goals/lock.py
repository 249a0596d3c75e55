"""One loop per workspace: a lock that ends with its process, and the name of the goal that holds it.

A folder and one inside it are one workspace in this: each loop would take the other's files for its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mainspring.errors import JournalOwned
from mainspring.journal.owner import own, owner_of

_FOLDER = "workspaces"
_NAME = "goal"
_PATH = "path"


class WorkspaceTaken(JournalOwned):
    """Another goal works in the same folder, or around or inside it."""


class Held:
    """The right to work in a folder; `name` says for which goal."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def name(self, goal: str) -> None:
        (self._place / _NAME).write_text(goal, "utf-8")


@contextmanager
def workspace_held(home: Path, workspace: Path) -> Generator[Held]:
    """Keeps every other loop out of the workspace. A lock whose process is dead is taken over."""
    workspace = workspace.resolve()
    place = home / _FOLDER / hashlib.sha256(bytes(workspace)).hexdigest()[:24]
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        owned = own(place, workspace.name)
    except JournalOwned as error:
        raise _taken(place, workspace) from error
    try:
        # Ours is told before others are looked at: of two that begin at once, at least one sees the other.
        (place / _PATH).write_bytes(bytes(workspace))
        _refuse_overlapping(place, workspace)
        yield Held(place)
    finally:
        (place / _NAME).unlink(missing_ok=True)
        (place / _PATH).unlink(missing_ok=True)
        owned.release()


def is_overlapping(one: Path, other: Path) -> bool:
    """Whether one of two folders is the other or lies in it."""
    return one.is_relative_to(other) or other.is_relative_to(one)


def _refuse_overlapping(place: Path, workspace: Path) -> None:
    for told in place.parent.glob(f"*/{_PATH}"):
        try:
            other = Path(os.fsdecode(told.read_bytes()))
        except FileNotFoundError:
            continue  # it has just ended
        if told.parent == place or not is_overlapping(workspace, other):
            continue
        owner = owner_of(told.parent)
        if owner is not None and owner.is_alive:
            raise _taken(told.parent, other)


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

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


@contextmanager
def workspace_held(home: Path, workspace: Path, goal: str) -> Generator[str]:
    """Keeps every other loop out of the workspace; gives the goal that died holding it, if one did."""
    place = home / _FOLDER / hashlib.sha256(bytes(workspace.resolve())).hexdigest()[:24]
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    before = _holder(place)
    try:
        owned = own(place, goal)
    except JournalOwned as error:
        owner = owner_of(place)
        who = f"process {owner.pid} on {owner.host}" if owner else "another process"
        raise WorkspaceTaken(
            f"The goal {before} already works in {workspace} ({who}).",
            remedy=f"Wait for it, or stop it first: mainspring goal stop {before}.",
        ) from error
    try:
        (place / _NAME).write_text(goal, "utf-8")
        yield before
    finally:
        (place / _NAME).unlink(missing_ok=True)
        owned.release()


def _holder(place: Path) -> str:
    try:
        return (place / _NAME).read_text("utf-8")
    except FileNotFoundError:
        return ""

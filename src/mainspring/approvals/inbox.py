"""Answers that other processes leave for the one that runs a session: one private file each, in its folder.

`CALL.TOKEN.json` waits; the owner renames it to `.taken` before it looks, and removes it once the answer is
in the journal, or leaves the reason in `.refused`. So an answer is never lost and never counts twice: what
was taken when the owner died is looked at again by the next, and the journal knows whether it counts.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import msgspec

from mainspring.disk.files import write_private
from mainspring.events import ApprovalGiven

_FOLDER = "answers"
_WAITING, _TAKEN, _REFUSED = ".json", ".taken", ".refused"


class LeftAnswer(msgspec.Struct, frozen=True):
    """An answer that was left and is now the owner's to decide about."""

    path: Path
    given: ApprovalGiven


class Inbox:
    """`folder` is the session's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER

    def leave(self, given: ApprovalGiven) -> Path:
        """Leaves an answer, durably, and gives its file."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{given.call}.{time.time_ns():020}-{secrets.token_hex(4)}{_WAITING}"
        write_private(path, msgspec.json.encode(given))
        return path

    def take(self, call: str = "") -> list[LeftAnswer]:
        """What was left for a call, or for any, the oldest first."""
        files = sorted(self._folder.glob(f"{call}.*" if call else "*"))
        wanted = [path for path in files if path.suffix in (_WAITING, _TAKEN)]
        return [left for path in wanted if (left := self._taken(path))]

    def _taken(self, path: Path) -> LeftAnswer | None:
        claimed = path.with_suffix(_TAKEN)
        try:
            path.rename(claimed)
            given = msgspec.json.decode(claimed.read_bytes(), type=ApprovalGiven)
        except FileNotFoundError:
            return None  # withdrawn in this moment
        except msgspec.MsgspecError as error:
            _refuse(claimed, f"it cannot be read: {error}")
            return None
        return LeftAnswer(claimed, given)

    def done(self, left: LeftAnswer) -> None:
        """The answer is in the journal."""
        left.path.unlink(missing_ok=True)

    def put_back(self, left: LeftAnswer) -> None:
        """Nobody waits for the answer now; it may still be withdrawn."""
        left.path.rename(left.path.with_suffix(_WAITING))

    def refuse(self, left: LeftAnswer, why: str) -> None:
        _refuse(left.path, why)

    def clear(self) -> None:
        """Removes refusals that nobody waited for."""
        for path in self._folder.glob(f"*{_REFUSED}"):
            path.unlink(missing_ok=True)


def _refuse(path: Path, why: str) -> None:
    write_private(path.with_suffix(_REFUSED), why.encode())
    path.unlink(missing_ok=True)


def withdraw(path: Path) -> bool:
    """Takes back an answer that nobody has taken; False when somebody has."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def is_pending(path: Path) -> bool:
    """Whether nobody has decided about an answer yet."""
    return path.exists() or path.with_suffix(_TAKEN).exists()


def refusal_of(path: Path) -> str:
    """Why an answer does not count, once it was decided; empty when it does."""
    refused = path.with_suffix(_REFUSED)
    try:
        why = refused.read_text()
    except FileNotFoundError:
        return ""
    refused.unlink(missing_ok=True)
    return why

"""Commands that other processes leave for the one that runs a session: one private file each, in its folder.

`NUMBER.json` waits, in the order of the numbers; the owner renames it to `.taken` before it acts, and removes
it once what it asks for is in the journal, or leaves the reason in `.refused`. So a command is never lost and
never counts twice: what was taken when the owner died is looked at again by the next, and the journal knows
whether it counts, by the call of an answer and by the id of everything else.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.disk.files import write_private
from mainspring.disk.formats import refuse_newer_json
from mainspring.errors import FileTooNew
from mainspring.events import ApprovalGiven, Origin
from mainspring.patterns import lazy_pattern

FORMAT_VERSION = 1
_FOLDER = "inbox"
_WAITING, _TAKEN, _REFUSED = ".json", ".taken", ".refused"
_NAME = lazy_pattern(r"[0-9]{20}-[0-9a-f]{8}\.(json|taken)")


class SayCommand(msgspec.Struct, frozen=True, tag="say"):
    """Tells the session something: it enters the running turn, or starts one; with `is_queued` it waits for
    the end of a turn that runs, with `is_steer` for the end of a step, and until then it can be withdrawn."""

    text: str
    is_queued: bool = False
    is_steer: bool = False
    is_line: bool = False
    """Queued in a chat, which shows it: it waits for a turn that is done, and lines keep their order."""
    needs_chat: bool = False
    """A line that only a chat can do: a command, or a message with files."""
    images: tuple[tuple[str, bytes], ...] = ()
    """What came from a clipboard with it: the words that stand for an image in the text, and the image."""


class NoteCommand(msgspec.Struct, frozen=True, tag="note"):
    """Tells the session something that needs no answer."""

    text: str


class StopCommand(msgspec.Struct, frozen=True, tag="stop"):
    """Ends the running turn."""


class AnswerCommand(msgspec.Struct, frozen=True, tag="answer"):
    """Answers an open question."""

    given: ApprovalGiven


class GoalCommand(msgspec.Struct, frozen=True, tag="goal"):
    """Pauses or stops the goal that the session works on; a signal makes it be read."""

    order: Literal["pause", "stop"]


class SaveCommand(msgspec.Struct, frozen=True, tag="save"):
    """Keeps an output under a name."""

    name: str
    data: bytes
    media_type: str
    note: str = ""
    source: str = ""


Command = SaveCommand | SayCommand | NoteCommand | StopCommand | AnswerCommand | GoalCommand


class _Sent(msgspec.Struct, frozen=True):
    id: str
    command: Command
    origin: Origin = Origin()
    format_version: int = FORMAT_VERSION


class LeftCommand(msgspec.Struct, frozen=True):
    """A command that was left, and who left it. `is_taken` when an owner had begun to act on it."""

    path: Path
    id: str
    command: Command
    origin: Origin
    is_taken: bool = False


class Inbox:
    """`folder` is the session's own. Who acts on commands of several tasks has `at_work` meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self.at_work = asyncio.Lock()

    def leave(self, command: Command, origin: Origin = Origin()) -> Path:  # noqa: B008 - frozen
        """Leaves a command, durably, behind all that wait, and gives its file."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        newest = max((int(path.stem.partition("-")[0]) for path in self._files()), default=0)
        name = f"{max(time.time_ns(), newest + 1):020}-{secrets.token_hex(4)}"
        path = self._folder / f"{name}{_WAITING}"
        write_private(path, msgspec.json.encode(_Sent(id=name, command=command, origin=origin)))
        return path

    def waiting(self, *kinds: type[Command]) -> Iterator[LeftCommand]:
        """What was left, of these kinds or of any, the oldest first, and is not done."""
        for path in self._files():
            if (left := self._read(path)) and (not kinds or isinstance(left.command, kinds)):
                yield left

    def take(self, left: LeftCommand) -> LeftCommand | None:
        """Takes a command, to act on it: nobody can withdraw it from here on; None when somebody has."""
        taken = begin(left.path)
        return msgspec.structs.replace(left, path=taken) if taken else None

    def done(self, left: LeftCommand) -> None:
        """What the command asks for is in the journal."""
        left.path.unlink(missing_ok=True)

    def put_back(self, left: LeftCommand) -> None:
        """Nothing can be done about the command now; it may still be withdrawn."""
        left.path.rename(left.path.with_suffix(_WAITING))

    def refuse(self, left: LeftCommand, why: str) -> None:
        _refuse(left.path, why)

    def clear(self) -> None:
        """Removes refusals that nobody waited for."""
        for path in self._folder.glob(f"*{_REFUSED}"):
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        try:
            found = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        return [self._folder / name for name in found if _NAME.fullmatch(name)]

    def _read(self, path: Path) -> LeftCommand | None:
        try:
            data = path.read_bytes()
            refuse_newer_json(path, data, FORMAT_VERSION)
            sent = msgspec.json.decode(data, type=_Sent)
        except FileNotFoundError:
            return None  # withdrawn in this moment
        except FileTooNew:
            _refuse(path, "it was left by a newer version of mainspring")
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _refuse(path, f"it cannot be read: {error}")
            return None
        return LeftCommand(path, sent.id, sent.command, sent.origin, is_taken=path.suffix == _TAKEN)


def _refuse(path: Path, why: str) -> None:
    write_private(path.with_suffix(_REFUSED), why.encode())
    path.unlink(missing_ok=True)


def begin(path: Path) -> Path | None:
    """Begins to act on a command, and gives its file from here on; None when it was withdrawn."""
    taken = path.with_suffix(_TAKEN)
    try:
        path.rename(taken)
    except FileNotFoundError:
        return None
    return taken


def withdraw(path: Path) -> bool:
    """Takes back a command that nobody has taken; False when somebody has."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def is_pending(path: Path) -> bool:
    """Whether nobody has decided about a command yet."""
    return path.exists() or path.with_suffix(_TAKEN).exists()


def refusal_of(path: Path) -> str:
    """Why a command does not count, once it was decided; empty when it does."""
    refused = path.with_suffix(_REFUSED)
    try:
        why = refused.read_text()
    except FileNotFoundError:
        return ""
    refused.unlink(missing_ok=True)
    return why

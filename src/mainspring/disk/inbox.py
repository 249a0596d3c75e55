"""Commands that other processes leave for the one that runs a session: one private file each, beside its
journal, where all machines that share it reach them.

`NUMBER.json` waits, in the order of the numbers; the owner renames it to `.taken` before it acts, and removes
it once what it asks for is in the journal, or leaves the reason in `.refused`. So a command is never lost and
never counts twice: what was taken when the owner died is looked at again by the next, and the journal knows
whether it counts, by the call of an answer and by the id of everything else.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from typing import Literal

import msgspec

from mainspring.disk.formats import refuse_newer_json
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import FileTooNew
from mainspring.events import ApprovalGiven, Origin
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.events.escaping import with_whole_characters
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
    is_from_afar: bool = False
    """No signal comes with it, because it was given on another machine."""


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

    id: str
    command: Command
    origin: Origin
    is_taken: bool = False


class Inbox:
    """`files` are those beside the session's journal. Who acts on commands of several tasks has `at_work`
    meanwhile."""

    def __init__(self, files: SharedFiles) -> None:
        self._files = files
        self.at_work = asyncio.Lock()

    def leave(self, command: Command, origin: Origin = Origin()) -> str:  # noqa: B008 - frozen
        """Leaves a command, durably, behind all that wait, and gives its id."""
        newest = max((int(name.partition("-")[0]) for name in self._names()), default=0)
        name = f"{max(time.time_ns(), newest + 1):020}-{secrets.token_hex(4)}"
        sent = _Sent(id=name, command=with_whole_characters(command), origin=origin)
        self._files.write(_waiting(name), msgspec.json.encode(sent))
        return name

    async def is_filled(self) -> bool:
        """Whether it is worth a look."""
        return await self._files.is_filled(_FOLDER)

    def waiting(self, *kinds: type[Command]) -> Iterator[LeftCommand]:
        """What was left, of these kinds or of any, the oldest first, and is not done."""
        for name in self._names():
            if (left := self._read(name)) and (not kinds or isinstance(left.command, kinds)):
                yield left

    def take(self, left: LeftCommand) -> LeftCommand | None:
        """Takes a command, to act on it: nobody can withdraw it from here on; None when somebody has."""
        before = _taken(left.id) if left.is_taken else _waiting(left.id)
        is_ours = self._files.rename(before, _taken(left.id))
        return msgspec.structs.replace(left, is_taken=True) if is_ours else None

    def begin(self, command: str) -> bool:
        """Takes one that nobody has taken; False when it was withdrawn."""
        return self._files.rename(_waiting(command), _taken(command))

    def withdraw(self, command: str) -> bool:
        """Takes back a command that nobody has taken; False when somebody has."""
        return self._files.remove(_waiting(command))

    def end(self, command: str) -> None:
        """What was taken is done."""
        self._files.remove(_taken(command))

    def done(self, left: LeftCommand) -> None:
        """What the command asks for is in the journal."""
        self._files.remove(_taken(left.id) if left.is_taken else _waiting(left.id))

    def put_back(self, left: LeftCommand) -> None:
        """Nothing can be done about the command now; it may still be withdrawn."""
        self._files.rename(_taken(left.id), _waiting(left.id))

    def refuse(self, left: LeftCommand, why: str) -> None:
        self._refuse(left.id, why)

    def is_pending(self, command: str) -> bool:
        """Whether nobody has decided about a command yet."""
        return any(self._files.read(name(command)) is not None for name in (_waiting, _taken))

    def refusal_of(self, command: str) -> str:
        """Why a command does not count, once it was decided; empty when it does."""
        why = self._files.read(_refused(command))
        if why is not None:
            self._files.remove(_refused(command))
        return (why or b"").decode()

    def clear(self) -> None:
        """Removes refusals that nobody waited for."""
        for name in self._files.names(_FOLDER):
            if name.endswith(_REFUSED):
                self._files.remove(f"{_FOLDER}/{name}")

    def _names(self) -> list[str]:
        return [name for name in self._files.names(_FOLDER) if _NAME.fullmatch(name)]

    def _read(self, name: str) -> LeftCommand | None:
        command, is_taken = name.rpartition(".")[0], name.endswith(_TAKEN)
        whole = f"{_FOLDER}/{name}"
        if (data := self._files.read(whole)) is None:
            return None  # withdrawn in this moment
        try:
            refuse_newer_json(self._files.shown(whole), data, FORMAT_VERSION)
            sent = msgspec.json.decode(data, type=_Sent)
        except FileTooNew:
            self._refuse(command, "it was left by a newer version of mainspring")
            return None
        except DECODE_ERRORS as error:
            self._refuse(command, f"it cannot be read: {error}")
            return None
        return LeftCommand(command, sent.command, sent.origin, is_taken=is_taken)

    def _refuse(self, command: str, why: str) -> None:
        self._files.write(_refused(command), why.encode())
        for name in (_waiting, _taken):
            self._files.remove(name(command))


def _waiting(command: str) -> str:
    return f"{_FOLDER}/{command}{_WAITING}"


def _taken(command: str) -> str:
    return f"{_FOLDER}/{command}{_TAKEN}"


def _refused(command: str) -> str:
    return f"{_FOLDER}/{command}{_REFUSED}"

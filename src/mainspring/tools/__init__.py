"""The port to what an agent can do: a tool is data plus one async function, and a toolbox runs its calls.

A tool says what it changes (`effect`), so that the policy can judge it and a resumed session knows whether an
interrupted call may be run again. What goes wrong in a tool is told to the model in its `Output`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.approvals import Effect
from mainspring.context.values import ShownText
from mainspring.events import Blob, CallEnded, Event, Media
from mainspring.folds.processes import Handles
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Content, Files, Version
from mainspring.waits.reach import WaitContext

MAX_TEXT = 64_000
"""Characters that the model is sent of one call at most."""


class ToolFailed(Exception):
    """A tool could not do what it was asked; the message is for the model."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a call gave. `full` is what did not fit into `text`. `cost_usd` is what it cost in truth, where a
    tool with a price knows better than its estimate. `left_running` are processes that its command left.
    `is_going_on` says that what it began goes on: what was set aside for it stays so until that has ended."""

    text: str
    is_error: bool = False
    exit_code: int | None = None
    media: tuple[Media, ...] = ()
    full: Blob | None = None
    cost_usd: float | None = None
    left_running: tuple[int, ...] = ()
    is_going_on: bool = False


class FileVersions:
    """The versions of files that this session has read or written, as far as this process knows: a session
    that was resumed reads again before it overwrites."""

    def __init__(self) -> None:
        self._versions: dict[Path, Version] = {}
        self.is_partial = False
        """Whether an earlier process of this session may have read more."""

    def add(self, path: Path, version: Version) -> None:
        self._versions[path] = version

    def forget(self, path: Path) -> None:
        self._versions.pop(path, None)

    def is_outdated(self, content: Content) -> bool:
        """Whether the file was seen and has changed since."""
        return self._versions.get(content.path, content.version) != content.version

    def __contains__(self, path: Path) -> bool:
        return path in self._versions


async def _forget(_: str) -> None:
    return


async def _nothing() -> Sequence[ShownText]:
    return ()


async def _nobody(_question: str) -> str | None:
    return None


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call runs, and what it may use there.

    `remember` keeps a text for later sessions. `kept` gives a blob back by its hash, or an event's text by
    its handle. `ended` gives the results on record of the calls named, or of all. `answer` is what a person
    said to a tool that asks one. `ask` asks a person while the call runs, and gives the answer, or None when
    they refused or nobody is there. `earlier` gives what the model has before it of what was shown, the
    newest first. `room` is how many characters of its text the model will be sent. `hide` takes the secrets
    out of a text that is about to be cut. `waiting` is what a call that waits works with.
    """

    call: str
    workspace: Path
    sandbox: Callable[[], Awaitable[Sandbox]]
    files: Files
    show: Callable[[str], None]
    keep: Callable[[bytes, str], Awaitable[Blob]]
    kept: Callable[[str], Awaitable[bytes]]
    record: Callable[[Event], Awaitable[None]]
    ended: Callable[[Collection[str]], Awaitable[Mapping[str, CallEnded]]]
    seen: FileVersions
    handles: Handles
    waiting: WaitContext | None = None
    remember: Callable[[str], Awaitable[None]] = _forget
    answer: str = ""
    ask: Callable[[str], Awaitable[str | None]] = _nobody
    earlier: Callable[[], Awaitable[Sequence[ShownText]]] = _nothing
    room: int = MAX_TEXT
    hide: Callable[[str], str] = str


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """`arguments` is a struct type: it validates a call and gives the schema that the model sees. A tool of
    somebody else's has its own `parameters`, a JSON schema, instead, and gets its arguments as a dict.
    `paths`, `command` and `hosts` tell the policy what a call with such arguments would touch, run or reach.
    `effect_of` says what one call changes when calls differ in that; `effect` is then the most.
    `outlives` says whether what a call runs goes on after it.
    `goes_on` says that a call that was interrupted is run again, and goes on with what is on record.
    `question` makes it a tool that a person answers: it is asked before the call runs, whatever the mode.
    `cost_usd` estimates what a call will cost at most, None when that is unknown; without it calls are free.
    `is_recurring` says whether a call takes effect later or again: then a person is always asked.
    `is_elsewhere` says that what it runs is on another machine: no sandbox here holds it, and no secret goes
    there.
    `stands_for` gives the name and the arguments, as JSON, of the call that a call stands for: that one is
    judged, run and recorded in its place."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    effect: Effect
    run: Callable[[Any, CallContext], Awaitable[Output | str]]
    paths: Callable[[Any], tuple[str, ...]] = lambda _: ()
    command: Callable[[Any], str] = lambda _: ""
    hosts: Callable[[Any], tuple[str, ...]] = lambda _: ()
    question: Callable[[Any], str] | None = None
    effect_of: Callable[[Any], Effect] | None = None
    outlives: Callable[[Any], bool] = lambda _: False
    cost_usd: Callable[[Any], float | None] | None = None
    is_recurring: Callable[[Any], bool] = lambda _: False
    goes_on: bool = False
    is_elsewhere: bool = False
    parameters: Mapping[str, Any] | None = None
    stands_for: Callable[[Any], tuple[str, str]] | None = None

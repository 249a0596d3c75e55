"""What must not be forgotten when history is made short, folded from the journal itself: what the user said,
the rules in it, the plan, files and what was done to them, commands and their exit codes, what is still open,
and errors that nothing has resolved. `apply` takes each event once, in order.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.context.intent import rules
from mainspring.context.values import canonical, touched_by
from mainspring.events import (
    PRIMING_SOURCE,
    TESTS_SOURCE,
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallAsked,
    CallEnded,
    Compacted,
    Event,
    GuardTripped,
    NoteAdded,
    PlanSet,
    ProcessEnded,
    ProcessStarted,
    Recorded,
    Remembered,
    SessionResumed,
    Undone,
    UserSaid,
    WaitEnded,
    WaitStarted,
    tool_of,
)
from mainspring.waits.describe import joined

_MAX_COMMANDS = 12
_MAX_ERRORS = 6
_MAX_NOTES = 20
_MAX_FILES = 150
_MAX_RULES = 40
_SHOWN = 240
_FOLDED: tuple[type[Event], ...] = (
    UserSaid,
    NoteAdded,
    AssistantSaid,
    CallEnded,
    GuardTripped,
    ApprovalAsked,
    ApprovalGiven,
    PlanSet,
    Remembered,
    Undone,
    Compacted,
    SessionResumed,
    ProcessStarted,
    ProcessEnded,
    WaitStarted,
    WaitEnded,
)
KINDS = frozenset(kind.__name__ for kind in _FOLDED)
"""The kinds of events that matter when history is made short."""

FRESH = "a fresh history"
"""The reason of a compaction that leaves everything out: what was said before no longer asks for anything."""


class SaidText(msgspec.Struct, frozen=True):
    seq: int
    text: str


class SessionFacts:
    def __init__(self) -> None:
        self.said: list[SaidText] = []
        self.rules: dict[str, None] = {}
        self.notes: list[str] = []
        self.plan: list[str] = []
        self.files: dict[str, dict[str, int]] = {}
        self.commands: dict[str, int | None] = {}
        self.open: dict[str, str] = {}
        self.errors: dict[tuple[str, str], str] = {}
        self._asked: dict[str, CallAsked] = {}
        self._waits: dict[str, str] = {}
        self._left_running: set[str] = set()

    @property
    def goal(self) -> str:
        return self.said[0].text if self.said else ""

    def apply(self, recorded: Recorded) -> None:
        match recorded.event:
            case AssistantSaid() as said:
                self._asked = {asked.call: asked for asked in said.calls}
            case CallEnded() as ended:
                self._apply_ended(ended)
            case UserSaid(text=text):
                self.said.append(SaidText(recorded.seq, text))
                self.rules.update(dict.fromkeys(rules(text)))
                _keep_newest(self.rules, _MAX_RULES)
            case NoteAdded() as note if note.source not in ("mainspring", PRIMING_SOURCE, TESTS_SOURCE):
                self.notes = [*self.notes, f"{note.source}: {note.text}"][-_MAX_NOTES:]
            case PlanSet(items=items):
                self.plan = [f"[{item.progress}] {item.text}" for item in items]
            case Remembered(text=text):
                self.notes = [*self.notes, text][-_MAX_NOTES:]
            case Compacted(reason=reason) if reason == FRESH:
                self._forget()
            case ApprovalAsked() as asked:
                self.open[asked.call] = f"approval of {asked.tool} {asked.arguments[:_SHOWN]}"
            case ApprovalGiven(call=call):
                self.open.pop(call, None)
            case _:
                self._apply_open(recorded.event)

    def _forget(self) -> None:
        """What is still open stays open, and the plan stays the plan."""
        for known in (self.said, self.rules, self.notes, self.files, self.commands, self.errors):
            known.clear()

    def _apply_ended(self, ended: CallEnded) -> None:
        self.open.pop(ended.call, None)
        for wait in [wait for wait, call in self._waits.items() if call == ended.call]:
            self.open.pop(wait, None)  # over with its call
        asked = self._asked.pop(ended.call, None)
        if asked is None:
            return
        touched = touched_by(asked.arguments)
        about = touched.command or next(iter(touched.paths), "") or canonical(asked.arguments)
        tool = tool_of(asked.name)
        key = (tool, about)
        if ended.outcome == "ok":
            self.errors.pop(key, None)
            for path in touched.paths:
                self._touch(path, tool)
        elif ended.outcome in ("error", "unknown"):
            self.errors.pop(key, None)
            self.errors[key] = _shown(ended.output)
            _keep_newest(self.errors, _MAX_ERRORS)
        if touched.command:
            self.commands.pop(touched.command, None)
            self.commands[touched.command] = ended.exit_code
            _keep_newest(self.commands, _MAX_COMMANDS)
        for pid in map(str, ended.left_running):
            self.open[pid] = f"process {pid}, left running by {about}"[:_SHOWN]
            self._left_running.add(pid)

    def _touch(self, path: str, tool: str) -> None:
        deeds = self.files.pop(path, {})
        deeds[tool] = deeds.get(tool, 0) + 1
        self.files[path] = deeds
        _keep_newest(self.files, _MAX_FILES)

    def _apply_open(self, event: Event) -> None:
        """What outlives the call that began it, from its beginning to its end."""
        match event:
            case ProcessStarted(handle=handle, command=command):
                self.open[handle] = f"background process {handle}: {command}"[:_SHOWN]
            case ProcessEnded(handle=handle):
                self.open.pop(handle, None)
            case WaitStarted(wait=wait) as started:
                reason = f" ({started.reason})" if started.reason else ""
                self.open[wait] = f"wait for {joined(started)}{reason}"[:_SHOWN]
                self._waits[wait] = started.call
            case WaitEnded(wait=wait):
                self.open.pop(wait, None)
            case SessionResumed():  # what a command left running ended with the process that ran it
                for pid in self._left_running:
                    self.open.pop(pid, None)
                self._left_running.clear()
            case _:
                pass


def _shown(output: str) -> str:
    """The end of an output is where errors usually are."""
    text = output.strip()
    return text if len(text) <= _SHOWN * 2 else f"{text[:_SHOWN]} … {text[-_SHOWN:]}"


def _keep_newest(values: dict[Any, Any], count: int) -> None:
    while len(values) > count:
        del values[next(iter(values))]

"""What must not be forgotten when history is made short, folded from the journal itself: what the user said,
the rules in it, the plan, files and what was done to them, commands and their exit codes, what is still open,
and errors that nothing has resolved. `apply` takes each event once, in order.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, cast

import msgspec

from mainspring.context.intent import rules
from mainspring.context.values import canonical, fields
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallAsked,
    CallEnded,
    NoteAdded,
    PlanSet,
    Recorded,
    Remembered,
    UserSaid,
)

_MAX_COMMANDS = 12
_MAX_ERRORS = 6
_MAX_NOTES = 20
_MAX_FILES = 150
_MAX_RULES = 40
_SHOWN = 240
_LEFT_RUNNING = re.compile(r"^still running in the background: (.+)$", re.MULTILINE)
_OPENED = re.compile(r"(Process|Wait|Timer|Job|Child)(Started|Opened|Begun|Set)")
_CLOSED = re.compile(r"(Process|Wait|Timer|Job|Child)(Ended|Stopped|Closed|Met|Woke|Expired|Cancelled)")
_NAMES = ("handle", "process", "wait", "timer", "job", "child", "id")


class Said(msgspec.Struct, frozen=True):
    seq: int
    text: str


class _Touched(msgspec.Struct, frozen=True):
    """What a call was about."""

    path: str = ""
    paths: tuple[str, ...] = ()
    command: str = ""


class Facts:
    def __init__(self) -> None:
        self.said: list[Said] = []
        self.rules: dict[str, None] = {}
        self.notes: list[str] = []
        self.plan: list[str] = []
        self.files: dict[str, Counter[str]] = {}
        self.commands: dict[str, int | None] = {}
        self.open: dict[str, str] = {}
        self.errors: dict[tuple[str, str], str] = {}
        self._asked: dict[str, CallAsked] = {}

    @property
    def goal(self) -> str:
        return self.said[0].text if self.said else ""

    def apply(self, recorded: Recorded) -> None:
        match recorded.event:
            case UserSaid(text=text):
                self.said.append(Said(recorded.seq, text))
                self.rules.update(dict.fromkeys(rules(text)))
                _keep_newest(self.rules, _MAX_RULES)
            case NoteAdded() as note if note.source != "mainspring":
                self.notes = [*self.notes, f"{note.source}: {note.text}"][-_MAX_NOTES:]
            case PlanSet(items=items):
                self.plan = [f"[{item.progress}] {item.text}" for item in items]
            case Remembered(text=text):
                self.notes = [*self.notes, text][-_MAX_NOTES:]
            case AssistantSaid() as said:
                self._asked = {asked.call: asked for asked in said.calls}
            case CallEnded() as ended:
                self._apply_ended(ended)
            case ApprovalAsked() as asked:
                self.open[asked.call] = f"approval of {asked.tool} {asked.arguments[:_SHOWN]}"
            case ApprovalGiven(call=call):
                self.open.pop(call, None)
            case _:
                self._apply_handle(recorded)

    def _apply_ended(self, ended: CallEnded) -> None:
        self.open.pop(ended.call, None)
        asked = self._asked.pop(ended.call, None)
        if asked is None:
            return
        touched = _touched(asked.arguments)
        about = touched.command or touched.path or canonical(asked.arguments)
        key = (asked.name, about)
        if ended.outcome == "ok":
            self.errors.pop(key, None)
            for path in filter(None, (touched.path, *touched.paths)):
                self._touch(path, asked.name)
        elif ended.outcome in ("error", "unknown"):
            self.errors.pop(key, None)
            self.errors[key] = _shown(ended.output)
            _keep_newest(self.errors, _MAX_ERRORS)
        if touched.command:
            self.commands.pop(touched.command, None)
            self.commands[touched.command] = ended.exit_code
            _keep_newest(self.commands, _MAX_COMMANDS)
        if found := _LEFT_RUNNING.search(ended.output[:2000]):
            for process in found[1].split(", "):
                self.open[process] = f"process {process}, left running by {about[:_SHOWN]}"

    def _touch(self, path: str, tool: str) -> None:
        deeds = self.files.pop(path, Counter[str]())
        deeds[tool] += 1
        self.files[path] = deeds
        _keep_newest(self.files, _MAX_FILES)

    def _apply_handle(self, recorded: Recorded) -> None:
        """Kinds of events that open and close something, by their names, also those not known here."""
        opened, closed = _OPENED.fullmatch(recorded.kind), _CLOSED.fullmatch(recorded.kind)
        if not opened and not closed:
            return
        values = fields(recorded.event)
        name = next((str(values[key]) for key in _NAMES if values.get(key)), "")
        if name and opened:
            about = ", ".join(f"{key} {value}" for key, value in values.items() if key not in _NAMES)
            self.open[name] = f"{opened[1].lower()} {name}: {about}"[:_SHOWN]
        elif name:
            self.open.pop(name, None)


def _touched(arguments: str) -> _Touched:
    try:
        given = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return _Touched()
    if not isinstance(given, dict):
        return _Touched()
    known = cast("dict[str, Any]", given)
    path, paths, command = known.get("path"), known.get("paths"), known.get("command")
    return _Touched(
        path=path if isinstance(path, str) else "",
        paths=tuple(item for item in cast("list[object]", paths) if isinstance(item, str))
        if isinstance(paths, list)
        else (),
        command=command if isinstance(command, str) else "",
    )


def _shown(output: str) -> str:
    """The end of an output is where errors usually are."""
    text = output.strip()
    return text if len(text) <= _SHOWN * 2 else f"{text[:_SHOWN]} … {text[-_SHOWN:]}"


def _keep_newest(values: dict[Any, Any], count: int) -> None:
    while len(values) > count:
        del values[next(iter(values))]

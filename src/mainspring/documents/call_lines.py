"""A call as one line for people, with what tells most about it."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from mainspring.events import CallAsked, PlanItem, tool_of
from mainspring.events.counts import plural
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.patterns import lazy_pattern

MAX_ARGUMENTS = 160
_PATCHED = lazy_pattern(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
_WAITED_FOR = {
    "processes": "process {} to end",
    "pids": "process number {} to end",
    "slurm_jobs": "Slurm job {} to end",
    "seconds": "{} s",
    "until": "{}",
    "command": "`{}` to succeed",
    "session": "session {} to end",
    "callback_file": "a call of the address in {}",
}
_FILE_WORDS = {"gone": "to be gone", "changed": "to change"}

Fields = dict[str, object]


def call_line(call: CallAsked) -> str:
    """A call on one line, with its most telling argument when there is one."""
    try:
        fields = msgspec.json.decode(call.arguments, type=Fields)
    except DECODE_ERRORS:
        fields = {}
    telling = _TELLING.get(tool_of(call.name), _command_or_path)(fields)
    first, *rest = (telling or call.arguments).splitlines() or [""]
    more = " …" if rest or len(first) > MAX_ARGUMENTS else ""
    return f"→ {call.name} {first[:MAX_ARGUMENTS]}{more}"


def _command_or_path(fields: Fields) -> str:
    return next(
        (each for key in ("command", "path") if isinstance(each := fields.get(key), str) and each), ""
    )


def _grep(fields: Fields) -> str:
    where = " ".join(str(each) for key in ("path", "glob") if (each := fields.get(key)) and each != ".")
    pattern = fields.get("pattern")
    return f"{pattern}{f' in {where}' if where else ''}" if isinstance(pattern, str) else ""


def _find(fields: Fields) -> str:
    return " in ".join(str(each) for key in ("glob", "path") if (each := fields.get(key)))


def _process(fields: Fields) -> str:
    return " ".join(str(each) for key in ("action", "handle", "text") if (each := fields.get(key)))


def _plan(fields: Fields) -> str:
    try:
        items = msgspec.convert(fields.get("items"), tuple[PlanItem, ...])
    except msgspec.ValidationError:
        return ""
    return f"{sum(each.progress == 'done' for each in items)} of {plural(len(items), 'item')} done"


def _patch(fields: Fields) -> str:
    patch = fields.get("patch")
    return ", ".join(_PATCHED.findall(patch)) if isinstance(patch, str) else ""


def _field(name: str) -> Callable[[Fields], str]:
    def text(fields: Fields) -> str:
        value = fields.get(name)
        return value.strip() if isinstance(value, str) else ""

    return text


def _delegate(fields: Fields) -> str:
    task, agent = fields.get("task"), fields.get("agent")
    behind = "in the background, " if fields.get("background") is True else ""
    who = f"to {agent}, " if isinstance(agent, str) and agent else ""
    return f"{behind}{who}{task.strip()}" if isinstance(task, str) else ""


def _wait(fields: Fields) -> str:
    phrases = [words.format(each) for key, words in _WAITED_FOR.items() for each in _listed(fields.get(key))]
    if file := fields.get("file"):
        pattern, until = fields.get("pattern"), str(fields.get("file_is"))
        is_matched = f"a line in {file} that matches {pattern!r}"
        phrases.append(is_matched if pattern else f"{file} {_FILE_WORDS.get(until, 'to exist')}")
    longest = f", {fields['max_seconds']} s at most" if fields.get("max_seconds") and phrases else ""
    return f"for {(' and ' if fields.get('all') else ' or ').join(phrases)}{longest}" if phrases else ""


def _listed(value: object) -> list[object]:
    """What is given once or several times; nothing when it is not given."""
    if isinstance(value, list):
        return [*value]
    return [] if value is None or value == "" else [value]


_TELLING: dict[str, Callable[[Fields], str]] = {
    "wait": _wait,
    "delegate": _delegate,
    "grep": _grep,
    "find": _find,
    "process": _process,
    "plan": _plan,
    "patch": _patch,
    "fetch": _field("url"),
    "web_search": _field("query"),
    "ask": _field("question"),
    "note": _field("text"),
    "notify": _field("text"),
    "finish": _field("summary"),
}

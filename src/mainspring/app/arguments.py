"""What arguments of public functions may be: a wrong one is named before anything is made or written."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from mainspring.errors import InvalidValue, MainspringError, UsageError
from mainspring.events import (
    Cap,
    Effort,
    EffortChosen,
    Evaluation,
    GoalChecks,
    GoalRules,
    GoalSet,
    Limits,
    Origin,
    Profile,
    Target,
    TurnStarted,
)
from mainspring.folds.caps import Caps
from mainspring.sandbox import LADDER
from mainspring.secrets.recorder import check_event
from mainspring.session.child import ChildSession
from mainspring.session.session import Session
from mainspring.settings import Config
from mainspring.tools import Tool

Kind = tuple[str, Callable[[object], bool]]
"""What an argument must be, in words, and whether a value is it."""


_PATH_BYTES, _NAME_BYTES = 4096, 255
"""What Linux takes as a path, and as a name in it."""


def check_arguments(given: Mapping[str, object], **kinds: Kind) -> None:
    """Raises `InvalidValue` for the first argument that cannot have its value. `given` may hold others."""
    for name, (words, is_fine) in kinds.items():
        value = given[name]
        if not is_fine(value):
            raise InvalidValue(f"{name} cannot be {_described(value)}.", remedy=f"It must be {words}.")


def _described(value: object) -> str:
    match value:
        case str():
            return repr(value[:100])
        case int() if value.bit_length() > 64:
            return "a number of that size"
        case int() | float():
            return repr(value)
        case _:
            return f"a {type(value).__name__}"


def check_open(given: Mapping[str, object]) -> None:
    """The arguments of `mainspring.open`."""
    check_arguments(given, **_OPEN)
    workspace = Path(str(given["workspace"])).absolute()
    if not _is_text(str(workspace)):
        raise UsageError(
            f"The name of the workspace is not UTF-8, and a journal has to name it: {str(workspace)!r}.",
            remedy="Rename the folder, or work in another one.",
        )
    try:
        check_event(EffortChosen(effort=given["effort"]))  # pyright: ignore[reportArgumentType]
        check_event(TurnStarted(turn=1, limits=given["limits"] or Limits()))  # pyright: ignore[reportArgumentType]
    except MainspringError as error:
        raise InvalidValue(f"limits cannot be that: {error.message}", remedy=error.remedy) from error
    _check_limits(cast("Limits | None", given["limits"]) or Limits())


def _check_limits(limits: Limits) -> None:
    plain = {name: getattr(limits, name) for name in Limits.__struct_fields__}
    caps = {name: plain.pop(name) for name in Caps.__struct_fields__}
    within = {
        f"{scope}.{unit}": getattr(cap, unit) for scope, cap in caps.items() for unit in Cap.__struct_fields__
    }
    for name, most in {**plain, **within}.items():
        if most is not None and most < 0:
            raise InvalidValue(f"limits.{name} cannot be {most}.", remedy="It must be at least 0, or None.")


def check_goal(given: Mapping[str, object], options: Mapping[str, Any]) -> None:
    """The arguments of `start_goal` and `resume_goal`, and the fields of their options."""
    check_arguments(given, approver=APPROVER, config=CONFIG, sessions=_OPEN["sessions"])
    check_arguments(options, **_GOAL)
    limits = {"checks": options["checks"], "evaluation": options["evaluation"]}
    check_event(GoalSet(text="", rules=GoalRules(**options["rules"]), **limits))


def check_instructions(session: str, instructions: str, system_prompt: str | None) -> None:
    if session and (instructions or system_prompt is not None):
        raise UsageError(
            "Instructions cannot be changed in a session that exists.",
            remedy="Add to them with `session.note`, or open a new session.",
        )


def _has(*names: str) -> Callable[[object], bool]:
    return lambda value: (
        not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in names)
    )


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


def _or(*ways: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: any(way(value) for way in ways)


def _is_path(value: object) -> bool:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        return False
    try:
        name = os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return len(name) < _PATH_BYTES and max(map(len, name.split(b"/"))) <= _NAME_BYTES


def _may_be_async(value: object) -> bool:
    """Whether a call of it may be something to wait for: what C code or a class gives never is."""
    return callable(value) and not inspect.isbuiltin(value) and not isinstance(value, type)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_name(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _items(value: object) -> Sequence[object] | None:
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return cast("Sequence[object]", value) if is_list else None


def _is_command(value: object) -> bool:
    words = _items(value)
    return bool(words) and all(_is_name(word) for word in words)


def _are(kind: type, value: object) -> bool:
    items = _items(value)
    return items is not None and all(isinstance(each, kind) for each in items)


def _is_amount(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    )


def _is_count(value: object) -> bool:
    return _is_amount(value) and isinstance(value, int)


def _are_rules(value: object) -> bool:
    return isinstance(value, dict) and set(cast("dict[object, Any]", value)) <= {*GoalRules.__struct_fields__}


def _is_model(value: object) -> bool:
    return _is_name(value) or _has("stream")(value)


def _are_models(value: object) -> bool:
    models = _items(value)
    return models is not None and all(_is_model(each) for each in models)


def _are_tools(value: object) -> bool:
    tools = _items(value)
    return tools is not None and all(isinstance(each, str | Tool) or callable(each) for each in tools)


_NONE = _is(type(None))
PATH: Kind = ("a path that a system can have", _is_path)
TEXT: Kind = ("a text", _is(str))
NAME: Kind = ("a text without NUL", _is_name)
TEXTS: Kind = ("a list of texts", lambda value: _are(str, value))
TARGETS: Kind = ("a list of Target", lambda value: _are(Target, value))
EFFORT: Kind = (
    f"{', '.join(get_args(Effort))} or None",
    lambda value: value is None or value in get_args(Effort),
)
COMMAND: Kind = ("a list of words that is not empty", _is_command)
SECONDS: Kind = ("a number of seconds that is finite and not negative, or None", _or(_NONE, _is_amount))
COUNT: Kind = ("a whole number that is not negative, or None", _or(_NONE, _is_count))
OPTIONAL_PATH: Kind = ("a path or None", _or(_NONE, _is_path))
ALLOW_HOME: Kind = ("True, False or a function that asks", _or(_is(bool), callable))
APPROVER: Kind = ("an async function that answers questions, or None", _or(_NONE, _may_be_async))
CHECK: Kind = ("a command line, or a list of them", _or(_is(str), lambda value: _are(str, value)))
CONFIG: Kind = ("a Config or None", _is(Config, type(None)))
_OPEN: dict[str, Kind] = {
    "workspace": PATH,
    "session": NAME,
    "engine": ("the name of an engine, or a function that takes turns", _or(_is_name, _may_be_async)),
    "model": ("the name of a model, or a Model", _is_model),
    "fallback": ("a list of models or of their names", _are_models),
    "effort": EFFORT,
    "profile": (
        f"{', '.join(get_args(Profile))} or None",
        lambda value: value is None or value in get_args(Profile),
    ),
    "mode": ("the name of a mode", _is_name),
    "limits": ("Limits or None", _is(Limits, type(None))),
    "instructions": TEXT,
    "system_prompt": ("a text or None", _is(str, type(None))),
    "tools": ("a list of tools, of their names or of async functions", _are_tools),
    "sandbox": (
        f"{', '.join(LADDER)} or a Sandbox; empty chooses",
        lambda value: value in ("", *LADDER) if isinstance(value, str) else _has("run", "close")(value),
    ),
    "policy": ("a Policy (an object with the method judge) or None", _or(_NONE, _has("judge"))),
    "approver": APPROVER,
    "allow_unpriced": ("True or False", _is(bool)),
    "allow_home": ALLOW_HOME,
    "parent": ("a Session or None", _is(Session, ChildSession, type(None))),
    "beginning": ("an async function or None", _or(_NONE, _may_be_async)),
    "config": CONFIG,
    "sessions": ("a store of sessions or None", _or(_NONE, _has("find", "rows"))),
    "origin": ("an Origin or None", _is(Origin, type(None))),
}
_GOAL: dict[str, Kind] = {
    "folder": ("a Path that a system can have", lambda value: isinstance(value, Path) and _is_path(value)),
    **dict.fromkeys(("profile", "engine", "memory", "model", "mode", "sandbox", "by"), NAME),
    "checks": ("GoalChecks", _is(GoalChecks)),
    "rules": (
        f"a dict with some of {', '.join(GoalRules.__struct_fields__)}",
        _are_rules,
    ),
    "evaluation": ("an Evaluation", _is(Evaluation)),
    "fallback": TEXTS,
    "effort": EFFORT,
    "allow_unpriced": ("True or False", _is(bool)),
    "allow_home": ALLOW_HOME,
    "notify": TEXTS,
}

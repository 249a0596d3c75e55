"""A file with a graph of tasks, in TOML: read, and checked before anything is spent.

Each `[[task]]` has a `name` and a `text`, and may have `needs`, `agent`, `model`, `check` and `budget`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from mainspring.disk.formats import parse_toml
from mainspring.disk.settings_errors import nearest_word
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import UsageError
from mainspring.events import PlannedTask
from mainspring.events.counts import plural
from mainspring.folds.task_graph import in_order

MAX_TASKS = 64
MAX_DEPTH = 16
"""Tasks in the longest chain of needs."""
MAX_FAN_OUT = 32
"""Tasks that need the same one."""
_MAX_BYTES = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_Text = Annotated[str, Meta(min_length=1, pattern=r"\S")]


class WrittenTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task as a person or a model writes it."""

    name: str
    text: _Text
    needs: tuple[str, ...] = ()
    agent: str = ""
    model: str = ""
    check: _Text | tuple[_Text, ...] = ()
    budget: Annotated[float, Meta(gt=0)] | None = None

    @property
    def planned(self) -> PlannedTask:
        return PlannedTask(
            name=self.name,
            text=self.text.strip(),
            needs=tuple(dict.fromkeys(self.needs)),
            agent=self.agent,
            model=self.model,
            checks=(self.check,) if isinstance(self.check, str) else self.check,
            budget_usd=self.budget,
        )


KEYS = WrittenTask.__struct_fields__


def read_tasks(path: Path) -> tuple[PlannedTask, ...]:
    """The tasks of a file; `UsageError` says what is wrong with it. Whether they fit together is not looked
    at."""
    try:
        written = parse_toml(read_untrusted_text(path, max_bytes=_MAX_BYTES))
    except OSError as error:
        raise UsageError(
            f"The tasks {path} cannot be read: {error.strerror}.", remedy="Name a TOML file with [[task]]."
        ) from error
    except ValueError as error:
        raise UsageError(
            f"The tasks {path} are not valid TOML: {error}.", remedy="Correct the file."
        ) from error
    for key in written:
        if key != "task":
            raise UsageError(f"{path}: {key!r} is no key of it.", remedy="It has [[task]] tables only.")
    tables = written.get("task", [])
    if not isinstance(tables, list):
        raise UsageError(f"{path}: task is no list of tables.", remedy="Write [[task]] above each task.")
    if not tables:
        raise UsageError(f"The tasks {path} are empty.", remedy='Write [[task]], name = "a" and text = "…".')
    return tuple(_task(path, place, table) for place, table in enumerate(cast("list[object]", tables), 1))


def _task(path: Path, place: int, table: object) -> PlannedTask:
    known = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    where = f"{path}: task {known.get('name') or place!r}"
    for key in known:
        if key not in KEYS:
            near = nearest_word(key, KEYS)
            remedy = f"Did you mean {near}?" if near else f"Its keys are {', '.join(KEYS)}."
            raise UsageError(f"{where} has the unknown key {key!r}.", remedy=remedy)
    try:
        return msgspec.convert(table, WrittenTask).planned
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{where} is not valid: {error}.", remedy=f"Its keys are {', '.join(KEYS)}."
        ) from error


def check_tasks(
    tasks: Sequence[PlannedTask], agents: Collection[str], refusal: Callable[[PlannedTask], str]
) -> None:
    """Raises `UsageError` unless these tasks can be done: their names, needs and agents are known, and no
    chain is endless or too long. `refusal` says why one may not work as it is written; empty when it may."""
    names = [task.name for task in tasks]
    if not 1 <= len(tasks) <= MAX_TASKS:
        raise UsageError(
            f"There are {plural(len(tasks), 'task')}; a graph has 1 to {MAX_TASKS}.",
            remedy="Split the graph.",
        )
    for task in tasks:
        if not _NAME.fullmatch(task.name):
            raise UsageError(
                f"The name {task.name!r} of a task is not valid.",
                remedy="Use up to 64 letters, digits, dots, hyphens and underscores.",
            )
        if names.count(task.name) > 1:
            raise UsageError(f"Two tasks have the name {task.name!r}.", remedy="Give each a name of its own.")
        _check_names(task, names, agents)
        if why := refusal(task):
            raise UsageError(f"Task {task.name}: {why}")
    _check_shape(tasks)


def _check_names(task: PlannedTask, names: Sequence[str], agents: Collection[str]) -> None:
    for need in task.needs:
        if need not in names:
            near = nearest_word(need, names)
            remedy = f"Did you mean {near}?" if near else f"The tasks are {', '.join(names)}."
            raise UsageError(f"Task {task.name} needs {need!r}, which is no task.", remedy=remedy)
    if task.agent and task.agent not in agents:
        near = nearest_word(task.agent, agents)
        remedy = f"Did you mean {near}?" if near else f"The agents are {', '.join(agents)}."
        raise UsageError(
            f"Task {task.name} names the agent {task.agent!r}, which is not known.", remedy=remedy
        )


def _check_shape(tasks: Sequence[PlannedTask]) -> None:
    ordered = in_order(tasks)
    if len(ordered) < len(tasks):
        cycle = _cycle(tasks, {task.name for task in ordered})
        raise UsageError(
            f"The tasks need each other: {' -> '.join(cycle)}.", remedy="Remove one of these needs."
        )
    depth: dict[str, int] = {}
    for task in ordered:
        depth[task.name] = 1 + max((depth[need] for need in task.needs), default=0)
        if depth[task.name] > MAX_DEPTH:
            raise UsageError(
                f"Task {task.name} ends a chain of {depth[task.name]} tasks; {MAX_DEPTH} are allowed.",
                remedy="Join tasks, or do them as two graphs.",
            )
    for task in tasks:
        needed = sum(task.name in other.needs for other in tasks)
        if needed > MAX_FAN_OUT:
            raise UsageError(
                f"{needed} tasks need {task.name}; {MAX_FAN_OUT} are allowed.",
                remedy="Join some of these tasks.",
            )


def _cycle(tasks: Sequence[PlannedTask], fine: Collection[str]) -> list[str]:
    """The names along a cycle, the first once more at the end."""
    needs = {task.name: [need for need in task.needs if need not in fine] for task in tasks}
    name = next(task.name for task in tasks if task.name not in fine)
    seen: list[str] = []
    while name not in seen:
        seen.append(name)
        name = needs[name][0]
    return [*seen[seen.index(name) :], name]

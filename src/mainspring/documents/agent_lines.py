"""Events of children as lines for people; a part of the table in `lines`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.events import ChildEnded, ChildStarted, Event, TasksEnded, TasksStarted
from mainspring.events.counts import plural

_SHOWN_TASK = 100
_SHOWN_FILES = 5


def _child_started(event: ChildStarted) -> str:
    task = event.task.strip().partition("\n")[0]
    cut = f"{task[:_SHOWN_TASK]}…" if len(task) > _SHOWN_TASK else task
    behind = " in the background" if event.is_background else ""
    node = f" task {event.node}:" if event.node else ""
    return f"⑂{node} {event.agent} {event.child} begins{behind}: {cut}"


def _child_ended(event: ChildEnded) -> str:
    used = f"{plural(event.steps, 'step')}, {event.duration_s:.1f} s, ${event.cost_usd:.4f}"
    why = f": {event.detail}" if event.detail and event.state != "done" else ""
    names = ", ".join(event.files[:_SHOWN_FILES]) + (", …" if len(event.files) > _SHOWN_FILES else "")
    changed = f"\n  {event.landing}: {names}" if event.files else ""
    clash = f"\n  ! in conflict: {', '.join(event.conflicts)}" if event.conflicts else ""
    return f"⑂ {event.child} {event.state}{why} ({used}){changed}{clash}"


def _tasks_started(event: TasksStarted) -> str:
    def line(name: str, needs: tuple[str, ...]) -> str:
        return f"\n  {name}" + (f" (needs {', '.join(needs)})" if needs else "")

    return f"⑂ {plural(len(event.tasks), 'task')}:" + "".join(
        line(each.name, each.needs) for each in event.tasks
    )


def _tasks_ended(event: TasksEnded) -> str:
    parts = (("done", event.done), ("failed", event.failed), ("blocked", event.blocked))
    return "⑂ tasks: " + "; ".join(f"{state}: {', '.join(names)}" for state, names in parts if names)


AGENT_LINES: dict[type[Event], Callable[[Any], str]] = {
    ChildStarted: _child_started,
    ChildEnded: _child_ended,
    TasksStarted: _tasks_started,
    TasksEnded: _tasks_ended,
}

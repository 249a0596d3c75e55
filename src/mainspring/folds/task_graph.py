"""A graph of tasks, folded from the journal of the session that has them done: which may begin, which are at
work, what came of each. A task that is not done blocks only what needs it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal

import msgspec

from mainspring.events import ChildEnded, ChildStarted, Event, PlannedTask, TasksEnded, TasksStarted

KINDS = ("TasksStarted", "ChildStarted", "ChildEnded", "TasksEnded")
"""The events that a graph is folded from."""

TaskState = Literal["waiting", "ready", "running", "done", "failed", "blocked"]


class GraphTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`level` is 0 for a task that needs nothing, else one more than the highest of what it needs.
    `missing` are the tasks that failed or are blocked themselves, where it is blocked."""

    plan: PlannedTask
    state: TaskState
    level: int = 0
    started: ChildStarted | None = None
    ended: ChildEnded | None = None
    missing: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Why it is not done, in one line; empty when it is, or may still be."""
        if self.missing:
            return f"not done before it: {', '.join(self.missing)}"
        if self.state != "failed" or self.ended is None:
            return ""
        if self.ended.conflicts:
            return f"conflict in {', '.join(self.ended.conflicts)}"
        head = self.ended.detail.strip().partition("\n")[0]
        return head or self.ended.state


class TaskGraph(msgspec.Struct, frozen=True, dict=True):
    """What a journal says about one graph. `children` are by task: of two for one task the last counts."""

    started: TasksStarted
    children: Mapping[str, ChildStarted] = {}
    ends: Mapping[str, ChildEnded] = {}
    is_over: bool = False

    def after(self, event: Event) -> TaskGraph:
        """The graph once this was recorded; events of other graphs and children change nothing."""
        replace = msgspec.structs.replace
        match event:
            case ChildStarted(node=node, call=call) if node and call == self.started.call:
                return replace(self, children={**self.children, node: event})
            case ChildEnded(child=child) if child in {each.child for each in self.children.values()}:
                return replace(self, ends={**self.ends, child: event})
            case TasksEnded(call=call) if call == self.started.call:
                return replace(self, is_over=True)
            case _:
                return self

    @cached_property
    def tasks(self) -> tuple[GraphTask, ...]:
        """Every task with its state, in the order in which they were given; of a journal that somebody else
        wrote, only those that can ever begin."""
        found: dict[str, GraphTask] = {}
        for plan in in_order(self.started.tasks):
            found[plan.name] = self._task(plan, [found[name] for name in plan.needs])
        return tuple(found[plan.name] for plan in self.started.tasks if plan.name in found)

    def _task(self, plan: PlannedTask, needs: list[GraphTask]) -> GraphTask:
        started = self.children.get(plan.name)
        ended = self.ends.get(started.child) if started else None
        missing = tuple(each.plan.name for each in needs if each.state in ("failed", "blocked"))
        state: TaskState
        if started and ended is None:
            state = "running"
        elif ended:
            state = "done" if ended.state == "done" and ended.landing != "conflict" else "failed"
        elif missing:
            state = "blocked"
        else:
            state = "ready" if all(each.state == "done" for each in needs) else "waiting"
        level = max((each.level + 1 for each in needs), default=0)
        missing = missing if state == "blocked" else ()
        return GraphTask(plan=plan, state=state, level=level, started=started, ended=ended, missing=missing)

    def of(self, *states: TaskState) -> tuple[GraphTask, ...]:
        return tuple(each for each in self.tasks if each.state in states)

    def named(self, *states: TaskState) -> tuple[str, ...]:
        return tuple(each.plan.name for each in self.of(*states))

    @property
    def is_done(self) -> bool:
        return all(each.state == "done" for each in self.tasks)

    @property
    def cost_usd(self) -> float:
        return sum(each.cost_usd for each in self.ends.values())


def graphs_in(events: Iterable[Event]) -> dict[str, TaskGraph]:
    """The graphs of a journal, by the call that asked for each."""
    found: dict[str, TaskGraph] = {}
    for event in events:
        if isinstance(event, TasksStarted):
            found[event.call] = TaskGraph(event)
        else:
            found = {call: graph.after(event) for call, graph in found.items()}
    return found


def in_order(tasks: Iterable[PlannedTask]) -> list[PlannedTask]:
    """The tasks so that each stands behind all that it needs; those in a cycle, and what needs them, are left
    out."""
    left, known, found = list(tasks), set[str](), list[PlannedTask]()
    while free := [each for each in left if known.issuperset(each.needs)]:
        found += free
        known.update(each.name for each in free)
        left = [each for each in left if each.name not in known]
    return found

"""A graph of tasks as rows, for every face, and as a tree of text. Each task stands below the last of those
that it needs; what else it needs is named beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mainspring.documents.figures import money
from mainspring.events import PlannedTask
from mainspring.events.counts import plural
from mainspring.folds.task_graph import GraphTask, TaskGraph, TaskState

MARKS: dict[TaskState, str] = {
    "waiting": "○",
    "ready": "○",
    "running": "⟳",
    "done": "✓",
    "failed": "✗",
    "blocked": "⊘",
}


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """`session` is that of the child that does it; `above` the task that it stands below in a tree. `failed`
    and `passed` are checks, `why` says why it is not done."""

    name: str
    state: TaskState
    level: int
    text: str
    above: str = ""
    needs: tuple[str, ...] = ()
    agent: str = ""
    session: str = ""
    why: str = ""
    detail: str = ""
    answer: str = ""
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    cost_usd: float = 0.0
    duration_s: float = 0.0


def task_rows(graph: TaskGraph) -> tuple[TaskRow, ...]:
    levels = {task.plan.name: task.level for task in graph.tasks}
    return tuple(task_row(task, levels) for task in graph.tasks)


def task_row(task: GraphTask, levels: Mapping[str, int]) -> TaskRow:
    """One task; `levels` are those of the tasks that it needs."""
    plan, ended = task.plan, task.ended
    row = TaskRow(
        name=plan.name,
        state=task.state,
        level=task.level,
        text=plan.text,
        above=_above(plan, levels),
        needs=plan.needs,
        agent=plan.agent,
        session=task.started.child if task.started else "",
        why=task.why,
    )
    if ended is None:
        return row
    return msgspec.structs.replace(
        row,
        detail=ended.detail,
        answer=ended.text,
        passed=ended.passed,
        failed=ended.failed,
        files=ended.files,
        cost_usd=ended.cost_usd,
        duration_s=ended.duration_s,
    )


def _above(plan: PlannedTask, levels: Mapping[str, int]) -> str:
    return max(plan.needs, key=lambda name: levels.get(name, 0), default="")


def task_tree(rows: Sequence[TaskRow]) -> str:
    """The tasks as a tree, with state, checks, cost and time in columns."""
    lines = list(_lines(rows, "", ""))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.ljust(width)}  {_facts(row)}".rstrip() for name, row in lines)


def _lines(rows: Sequence[TaskRow], above: str, indent: str) -> Iterator[tuple[str, TaskRow]]:
    below = [row for row in rows if row.above == above]
    for place, row in enumerate(below, 1):
        is_last = place == len(below)
        branch = ("└─ " if is_last else "├─ ") if above else ""
        yield f"{indent}{branch}{MARKS[row.state]} {row.name}", row
        deeper = indent + (("   " if is_last else "│  ") if above else "")
        yield from _lines(rows, row.name, deeper)


def _facts(row: TaskRow) -> str:
    checks = len(row.passed) + len(row.failed)
    also = [name for name in row.needs if name != row.above]
    facts = (
        f"{row.state:<8}",
        f"{money(row.cost_usd)}  {row.duration_s:.0f} s" if row.session else "",
        f"{len(row.passed)} of {plural(checks, 'check')} passed" if checks else "",
        f"also needs {', '.join(also)}" if also else "",
        row.why,
    )
    return "  ".join(filter(None, facts))

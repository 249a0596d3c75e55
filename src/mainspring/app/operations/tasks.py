"""A graph of tasks that a person gave in a file, done by children of a session that asks no model itself.

All that the graph is stands in the journal of that session: the tasks before anything begins, each child
before there is such a session, and its end. A process that takes it over does none of them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mainspring.agents.children import MAX_AT_WORK
from mainspring.agents.files import GENERAL
from mainspring.agents.task_files import check_tasks, read_tasks
from mainspring.agents.task_runs import load_graphs, run_graph
from mainspring.agents.tasks_tool import AT_ONCE
from mainspring.app.build import open as open_session
from mainspring.app.delegation import runner_of
from mainspring.app.engines import engine_name
from mainspring.app.known import workspace_at
from mainspring.app.models import delegated_model
from mainspring.app.operations.agents import agent_refusal, list_agents
from mainspring.app.operations.sessions import journal_of
from mainspring.app.project_settings import in_project
from mainspring.app.stores import sessions_of
from mainspring.app.workspaces import AllowHome
from mainspring.approvals.questions import Approver
from mainspring.documents.task_tree import TaskRow, task_row, task_rows
from mainspring.engines import builtin
from mainspring.errors import UsageError
from mainspring.events import Effort, Event, Limits, PlannedTask, TasksStarted
from mainspring.folds.caps import cap_of
from mainspring.folds.task_graph import TaskGraph
from mainspring.journal import JournalReader
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config

_SHOWN_NAMES = 80


class TasksHow(msgspec.Struct, frozen=True, kw_only=True):
    """How the sessions of a graph are opened, and who is told of each task that begins or ends. `limits` hold
    for all tasks together."""

    model: str = ""
    limits: Limits = Limits()
    mode: str = ""
    sandbox: str = ""
    effort: Effort | None = None
    allow_unpriced: bool = False
    allow_home: AllowHome = False
    approver: Approver | None = None
    at_once: int = AT_ONCE
    on_begin: Callable[[str], None] = lambda _: None
    on_change: Callable[[TaskRow], None] = lambda _: None


class TasksRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal of a session says about its tasks. `is_over`: nothing is left that could be done."""

    session: str
    title: str
    is_over: bool
    is_done: bool
    cost_usd: float
    tasks: tuple[TaskRow, ...]


def plan_tasks(config: Config, folder: Path, file: Path, model: str = "") -> tuple[PlannedTask, ...]:
    """The tasks of a file, checked: nothing was begun. `UsageError` says what is wrong."""
    place = workspace_at(folder)
    config = in_project(config, place)
    agents = {GENERAL.name: GENERAL, **list_agents(config, place)[0]}

    def refusal(task: PlannedTask) -> str:
        named = task.model if task.model != model else ""
        if named and not delegated_model(named, config):
            return f"the model {named} is not known here, or there is no key for it."
        return agent_refusal(config, agents[task.agent or GENERAL.name])

    tasks = read_tasks(file)
    check_tasks(tasks, agents, refusal)
    if engine_name("", None, config) != builtin.NAME:
        raise UsageError(
            "Tasks are done by the built-in engine, and the settings name another one.",
            remedy="mainspring config set engine builtin",
        )
    return tasks


async def start_tasks(config: Config, folder: Path, file: Path, how: TasksHow) -> TasksRun:
    """Has the tasks of a file done."""
    tasks = plan_tasks(config, folder, file, how.model)
    names = ", ".join(task.name for task in tasks)
    started = TasksStarted(
        tasks=tasks,
        title=f"{file.name}: {names}"[:_SHOWN_NAMES],
        at_once=min(how.at_once, MAX_AT_WORK),
        cap=cap_of(how.limits, "session"),
        is_unpriced=how.allow_unpriced,
    )

    async def beginning() -> Sequence[Event]:
        return (started,)

    opened = open_session(
        workspace_at(folder),
        model=how.model,
        limits=how.limits,
        effort=how.effort,
        beginning=beginning,
        mode=how.mode,
        sandbox=how.sandbox,
        tools=(),
        approver=how.approver,
        allow_unpriced=how.allow_unpriced,
        allow_home=how.allow_home,
        config=config,
    )
    async with opened as parent:
        return await _work(parent, config, how)


async def resume_tasks(config: Config, session: str, how: TasksHow) -> TasksRun:
    """Goes on with the tasks that have no end on record. What all may use together, and whether a model of
    unknown price is accepted, was settled when they began."""
    async with journal_of(config, session) as journal:
        graph = await load_tasks(journal)
        if graph.is_over:
            return _run_of(journal.session, graph)
        session = journal.session
    opened = open_session(
        session=session,
        limits=Limits(session=graph.started.cap),
        effort=how.effort,
        mode=how.mode,
        sandbox=how.sandbox,
        tools=(),
        approver=how.approver,
        allow_unpriced=how.allow_unpriced or graph.started.is_unpriced,
        allow_home=how.allow_home,
        config=config,
    )
    async with opened as parent:
        return await _work(parent, config, how)


async def show_tasks(config: Config, session: str) -> TasksRun:
    """How far the tasks of a session are, also while another process works on them."""
    async with journal_of(config, session) as journal:
        return _run_of(journal.session, await load_tasks(journal))


async def list_tasks(config: Config, session: str) -> tuple[TasksRun, ...]:
    """Every graph of tasks of a session, those that its model gave included."""
    async with journal_of(config, session) as journal:
        graphs = await load_graphs(journal)
        return tuple(_run_of(journal.session, graph) for graph in graphs.values())


async def load_tasks(journal: JournalReader) -> TaskGraph:
    """The graph that a person gave, else the last that the model did; `UsageError` when there is none."""
    graphs = await load_graphs(journal)
    if not graphs:
        raise UsageError(
            f"Session {journal.session} has no tasks.", remedy="mainspring tasks FILE starts some."
        )
    return graphs.get("") or list(graphs.values())[-1]


async def _work(parent: Session, config: Config, how: TasksHow) -> TasksRun:
    how.on_begin(parent.id)
    config = in_project(config, parent.state.workspace)
    agents, _ = list_agents(config, parent.state.workspace)
    allows_home = bool(how.allow_home)
    runner = runner_of(parent, agents, config, sessions_of(config), how.sandbox, None, allow_home=allows_home)
    async with runner.beside():
        graph = await run_graph(
            runner, runtime_of(parent), "", lambda task: how.on_change(task_row(task, {}))
        )
    return _run_of(parent.id, graph)


def _run_of(session: str, graph: TaskGraph) -> TasksRun:
    return TasksRun(
        session=session,
        title=graph.started.title,
        is_over=graph.is_over,
        is_done=graph.is_done,
        cost_usd=graph.cost_usd,
        tasks=task_rows(graph),
    )

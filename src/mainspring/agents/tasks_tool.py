"""`tasks`: gives a graph of tasks to agents. A call that was interrupted goes on with what is on record."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.agents.children import ChildRunner
from mainspring.agents.delegate import DelegateArguments, isolation_of
from mainspring.agents.files import GENERAL, Agent
from mainspring.agents.task_files import WrittenTask, check_tasks
from mainspring.agents.task_runs import load_graphs, run_graph, told_graph
from mainspring.approvals import Effect
from mainspring.errors import UsageError
from mainspring.events import OutputDelta, PlannedTask, TasksStarted
from mainspring.folds.task_graph import GraphTask
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments
from mainspring.turns.runtime import Runtime

AT_ONCE = 4


class TasksArguments(Arguments, frozen=True):
    tasks: Annotated[tuple[WrittenTask, ...], Meta(min_length=1)]


def tasks_tool(
    run: Callable[[TasksArguments, CallContext], Awaitable[Output]],
    effect_of: Callable[[TasksArguments], Effect],
) -> Tool:
    return Tool(
        name="tasks",
        description=described(Path(__file__)),
        arguments=TasksArguments,
        effect="write",
        effect_of=effect_of,
        goes_on=True,
        run=run,
    )


def tasks_effect(arguments: TasksArguments, agents: Mapping[str, Agent], mode: str) -> Effect:
    """Whether somebody who writes is given work."""
    found = (agents.get(task.agent, GENERAL) for task in arguments.tasks)
    places = {isolation_of(DelegateArguments(task="x"), agent, mode) for agent in found}
    return "write" if "worktree" in places else "none"


async def run_tasks(
    runner: ChildRunner,
    runtime: Runtime,
    agents: Mapping[str, Agent],
    arguments: TasksArguments,
    place: CallContext,
) -> Output:
    """Has the tasks of a call done, and gives what came of each."""
    if place.call not in await load_graphs(runtime.journal):
        await runtime.record(_planned(runner, agents, arguments, place.call))

    def tell(task: GraphTask) -> None:
        why = f" ({task.why})" if task.why else ""
        runtime.show(OutputDelta(call=place.call, text=f"{task.plan.name}: {task.state}{why}\n"))

    graph = await run_graph(runner, runtime, place.call, tell)
    return Output(text=told_graph(graph), is_error=not graph.is_done)


def _planned(
    runner: ChildRunner, agents: Mapping[str, Agent], arguments: TasksArguments, call: str
) -> TasksStarted:
    def refusal(task: PlannedTask) -> str:
        try:
            runner.agent_for(task.agent, task.model)
        except ToolFailed as error:
            return str(error)
        return ""

    tasks = tuple(each.planned for each in arguments.tasks)
    try:
        check_tasks(tasks, {GENERAL.name, *agents}, refusal)
    except UsageError as error:
        raise ToolFailed(f"{error.message} {error.remedy}".strip()) from error
    return TasksStarted(tasks=tasks, call=call, at_once=AT_ONCE)

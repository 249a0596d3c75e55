"""The agents of a session that is being opened. What runs them is loaded when the first of them is wanted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.agents.delegate import DelegateArguments, delegate_tool, isolation_of
from mainspring.agents.files import GENERAL, find_agents
from mainspring.app.plugins import UsedPlugins, usable_folders
from mainspring.app.toolset import DEFAULT_TOOLS, ToolChoice
from mainspring.approvals import Effect
from mainspring.catalog import Sessions
from mainspring.engines import builtin
from mainspring.events import Origin, Profile
from mainspring.sandbox import Sandbox
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config
from mainspring.tools import CallContext, Output, Tool, ToolFailed

if TYPE_CHECKING:
    from mainspring.agents.children import ChildRunner
    from mainspring.agents.tasks_tool import TasksArguments


class SessionAgents:
    """Whom a session can give work to."""

    def __init__(self, workspace: Path, config: Config, plugins: UsedPlugins) -> None:
        self._agents, _ = find_agents(agent_folders(workspace, config, plugins), workspace)
        self._has_tasks = config.settings.work.delegate == "tasks"
        self._session: Session | None = None
        self._run: Callable[[], Awaitable[ChildRunner]] | None = None

    def tools(self, window: int | None) -> list[Tool]:
        del window
        delegate = delegate_tool(self._agents.values(), self._delegate, self._effect)
        return [delegate, self._tasks_tool()] if self._has_tasks else [delegate]

    def _tasks_tool(self) -> Tool:
        tool = import_module("mainspring.agents.tasks_tool")

        def effect(arguments: TasksArguments) -> Effect:
            mode = self._session.state.mode if self._session else ""
            return tool.tasks_effect(arguments, self._agents, mode)

        async def run(arguments: TasksArguments, place: CallContext) -> Output:
            if self._run is None or self._session is None:
                raise ToolFailed("Nobody can work for this session now.")
            runner, runtime = await self._run(), runtime_of(self._session)
            return await tool.run_tasks(runner, runtime, self._agents, arguments, place)

        return tool.tasks_tool(run, effect)

    def find(self, name: str) -> Tool | None:
        del name
        return None

    def _effect(self, arguments: DelegateArguments) -> Effect:
        agent = self._agents.get(arguments.agent, GENERAL)
        mode = self._session.state.mode if self._session else ""
        return "write" if isolation_of(arguments, agent, mode) == "worktree" else "none"

    async def _delegate(self, arguments: DelegateArguments, place: CallContext) -> Output:
        if self._run is None:
            raise ToolFailed("Nobody can work for this session now.")
        runner = await self._run()
        return await runner.delegate(arguments, place)

    @asynccontextmanager
    async def beside(
        self,
        session: Session,
        config: Config,
        store: Sessions,
        sandbox: Sandbox | str,
        origin: Origin | None,
        *,
        allow_home: bool,
    ) -> AsyncGenerator[None]:
        """Runs children while a session is open, from the first one on."""
        runners: list[ChildRunner] = []

        async def run() -> ChildRunner:
            if not runners:
                made: ChildRunner = import_module("mainspring.app.delegation").runner_of(
                    session, self._agents, config, store, sandbox, origin, allow_home=allow_home
                )
                runners.append(made)
                await running.enter_async_context(made.beside())
            return runners[0]

        async with AsyncExitStack() as running:
            self._session, self._run = session, run
            try:
                if session.state.children.open:
                    await run()
                yield
            finally:
                self._run = None


def agents_of(
    tools: Sequence[ToolChoice],
    engine: str,
    place: Path,
    profile: Profile,
    config: Config,
    plugins: UsedPlugins,
) -> SessionAgents | None:
    """What gives work to agents, for a session that takes its own turns with the usual tools; None where
    agents are not offered: for small models, and when they are switched off."""
    is_off = profile == "small" or config.settings.work.delegate == "off"
    if tools is not DEFAULT_TOOLS or engine != builtin.NAME or is_off:
        return None
    return SessionAgents(place, config, plugins)


def agent_folders(
    workspace: Path, config: Config, plugins: UsedPlugins | None = None
) -> Iterator[tuple[Path, bool]]:
    """Where agents are written down, the user's first and those of plugins, which were approved, last; and
    whether the folder is the project's."""
    home = Path(config.variable("HOME") or "/")
    yield from ((config.folder / "agents", False), (home / ".claude" / "agents", False))
    yield from ((workspace / name / "agents", True) for name in (".mainspring", ".claude"))
    folders = plugins.folders if plugins else usable_folders(config, workspace)[0]
    yield from ((place, False) for each in folders for place in each.agents)


def worktrees_folder(config: Config) -> Path:
    """Where children have their copies of workspaces: not among our data, which no child may read."""
    return config.home.with_name(f"{config.home.name}-worktrees")


@asynccontextmanager
async def agents_beside(
    agents: SessionAgents | None,
    session: Session,
    config: Config,
    store: Sessions,
    sandbox: Sandbox | str,
    origin: Origin | None,
    *,
    allow_home: bool,
) -> AsyncGenerator[None]:
    """Children are at work while their parent is open; they end before it. So do those that review what its
    turns changed, where the settings want that."""
    if config.settings.review.before_done and runtime_of(session).budget.parent is None:
        review = import_module("mainspring.app.review_before_done")
        review.attach_review(session, config, store, allow_home=allow_home)
    if agents is None:
        yield
        return
    async with agents.beside(session, config, store, sandbox, origin, allow_home=allow_home):
        yield

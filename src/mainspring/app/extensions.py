"""What a session has beside its own: tools of servers and of plugins, hooks, and plugins that are told what
happens. What none of them needs is not loaded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from mainspring.app.background_index import begin_index
from mainspring.app.checks import SessionChecks, code_tools, session_checks
from mainspring.app.document_tools import document_tools
from mainspring.app.hooks import hooks_of
from mainspring.app.known import KnownSession
from mainspring.app.plugins import UsedPlugins, load_plugins
from mainspring.app.servers import servers_beside, servers_of
from mainspring.app.session_index import SessionIndex, session_index
from mainspring.app.toolset import DEFAULT_TOOLS, ToolChoice
from mainspring.approvals import Mode
from mainspring.disk.log import log
from mainspring.engines import builtin
from mainspring.errors import UsageError
from mainspring.events import MachineChosen, Profile, StatusDelta
from mainspring.models.wires.messages import wire_name
from mainspring.sandbox import Sandbox
from mainspring.session.child import ChildSession
from mainspring.settings import Config
from mainspring.tools import Tool
from mainspring.tools.shell import TOOL as SHELL
from mainspring.turns.runtime import Runtime
from mainspring.waits.reach import JobLook

if TYPE_CHECKING:
    from mainspring.app.hook_files import LoadedHooks
    from mainspring.app.mcp_tools import SessionServers
    from mainspring.app.session_jobs import SessionJobs
    from mainspring.app.session_machine import SessionMachine
    from mainspring.plugins import Subscriber

_LAST_S = 5.0
_NO_SEARCH: tuple[list[Tool], tuple[str, ...]] = ([], ())


class Extensions:
    def __init__(
        self,
        servers: SessionServers | None,
        plugins: UsedPlugins,
        hooks: LoadedHooks | None,
        search: tuple[list[Tool], tuple[str, ...]],
        checks: SessionChecks | None,
        code: list[Tool],
        index: SessionIndex | None,
        jobs: SessionJobs | None,
        machine: SessionMachine | None,
        config: Config,
    ) -> None:
        self._config = config
        self.jobs = jobs
        self.machine = machine
        self.index = index
        self.checks = checks
        self._code = code
        self.servers = servers
        self.plugins = plugins
        self.hooks = hooks
        self._search, self._search_warnings = search

    @property
    def warnings(self) -> tuple[str, ...]:
        parts = (self.plugins, self.servers, self.hooks)
        told = tuple(each for part in parts if part for each in part.warnings)
        return (*self._search_warnings, *told)

    @property
    def shell(self) -> Tool:
        """What runs commands: here, or on the machine of the session."""
        return self.machine.tool if self.machine else SHELL

    @property
    def look(self) -> Callable[[str], Awaitable[JobLook]] | None:
        """How a wait looks at a job of the session."""
        return self.jobs.look if self.jobs else None

    def tools(self, window: int | None) -> list[Tool]:
        """What is shown in every request, in the same order for the same plugins and servers. Tools of
        plugins that would take too much of the window are found with `find_tools`, as those of servers; those
        that ask language servers always are."""
        own = self.plugins.tools
        if self.servers:
            return [*self._search, *self.servers.tools(window, own, self._code)]
        if own or self._code:
            found = import_module("mainspring.app.found_tools")
            own = found.shown_or_found(own, self._code, window, self._config)
        return [*self._search, *own]

    def find(self, name: str) -> Tool | None:
        known = (
            tool for tool in (*self.plugins.tools, *self._code) if name in (tool.name, wire_name(tool.name))
        )
        return next(known, None) or (self.servers.find(name) if self.servers else None)


def extensions_of(
    tools: Sequence[ToolChoice],
    engine: str,
    known: KnownSession,
    mode: Mode,
    sandbox: Sandbox | str,
    config: Config,
    child: ChildSession | None,
    profile: Profile,
) -> Extensions:
    """A child has the hooks of its parent: in a copy of the workspace nobody has approved any. Small models
    are not shown tools that must be found first."""
    place, machine = known.place, machine_of(known, engine, config)
    plugins = load_plugins(config, place)
    servers = servers_of(tools, engine, place, mode, sandbox, config, plugins.folders)
    is_searching = engine == builtin.NAME and config.settings.search.backend
    search = import_module("mainspring.app.search").search_tools(config) if is_searching else _NO_SEARCH
    hooks = None if child else hooks_of(place, config, plugins)
    checks = session_checks(config)
    is_usual = tools is DEFAULT_TOOLS and engine == builtin.NAME and profile != "small"
    if is_usual and child is None:
        begin_index(place, config)
    index = session_index(place, config) if is_usual else None
    code = (checks.tools(place, index) if checks else code_tools(None, index)) if is_usual else []
    code += import_module("mainspring.app.impact_tool").impact_tools(config) if code else []
    code += document_tools(place, config) if is_usual else []
    jobs = jobs_of(config) if is_usual else None
    code += import_module("mainspring.app.job_tool").job_tools(jobs) if jobs else []
    return Extensions(servers, plugins, hooks, search, checks, code, index, jobs, machine, config)


def jobs_of(config: Config) -> SessionJobs | None:
    """The jobs of a session, where the settings name machines that run them."""
    if not config.settings.jobs:
        return None
    made: SessionJobs = import_module("mainspring.app.session_jobs").SessionJobs(config)
    return made


def machine_of(known: KnownSession, engine: str, config: Config) -> SessionMachine | None:
    """Where the commands of a session run: as a person says now, else as its journal does; None for here."""
    name = config.machine or known.machine
    if not name:
        return None
    if engine != builtin.NAME:
        raise UsageError(
            f"The engine {engine} runs its commands itself, on this machine.",
            remedy="Use the built-in engine with --on.",
        )
    made: SessionMachine = import_module("mainspring.app.session_machine").SessionMachine(config, name)
    return made


@asynccontextmanager
async def elsewhere_beside(extensions: Extensions, runtime: Runtime) -> AsyncGenerator[None]:
    """What a session has on other machines is looked after while it is open."""
    async with AsyncExitStack() as stack:
        if extensions.jobs:
            extensions.jobs.attach(runtime)
            await stack.enter_async_context(extensions.jobs.beside())
        if machine := extensions.machine:
            if machine.name != runtime.state.jobs.machine:
                await runtime.record(MachineChosen(machine=machine.name))
            machine.attach(runtime)
            await stack.enter_async_context(machine.beside())
        yield


@asynccontextmanager
async def extensions_beside(extensions: Extensions, runtime: Runtime) -> AsyncGenerator[None]:
    """Servers live, and plugins are told what happens, while their session is open."""
    told = [
        (each.plugin.name, function)
        for each in extensions.plugins.loaded
        for function in each.plugin.subscribers
    ]
    tasks = [asyncio.create_task(_tell(name, function, runtime)) for name, function in told]
    try:
        async with servers_beside(extensions.servers, runtime):
            yield
    finally:
        if extensions.index:
            await extensions.index.close()
        if tasks:  # the session is closed: they are told its last events
            await asyncio.wait(tasks, timeout=_LAST_S)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def _tell(name: str, function: Subscriber, runtime: Runtime) -> None:
    """Calls it with each event; one that fails is told no more, and the session goes on."""
    try:
        async with aclosing(runtime.feed.subscribe(runtime.feed.last_seq)) as events:
            async for recorded in events:
                await function(recorded)
    except Exception as error:  # noqa: BLE001 - a plugin's fault, or the session's own, which is raised there
        log("a plugin's subscriber ended", plugin=name, error=repr(error))
        runtime.show(StatusDelta(text=f"The plugin {name} is told no more: {error!r}"))

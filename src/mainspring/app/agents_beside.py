"""The agents of a session that is being opened: what runs them is loaded only where they are offered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.app.plugins import usable_folders
from mainspring.app.toolset import DEFAULT_TOOLS, ToolChoice
from mainspring.catalog import Sessions
from mainspring.engines import builtin
from mainspring.events import Origin, Profile
from mainspring.sandbox import Sandbox
from mainspring.session.session import Session
from mainspring.settings import Config

if TYPE_CHECKING:
    from mainspring.app.delegation import SessionAgents


def agents_of(
    tools: Sequence[ToolChoice], engine: str, place: Path, profile: Profile, config: Config
) -> SessionAgents | None:
    """What gives work to agents, for a session that takes its own turns with the usual tools; None where
    agents are not offered: for small models, when they are switched off, or, as long as nobody switched them
    on, when neither the user nor the project has any of their own."""
    offered = config.settings.work.delegate
    if tools is not DEFAULT_TOOLS or engine != builtin.NAME or profile == "small" or offered == "off":
        return None
    if offered != "on" and not any(folder.is_dir() for folder, _ in agent_folders(place, config)):
        return None
    return import_module("mainspring.app.delegation").SessionAgents(place, config)


def agent_folders(workspace: Path, config: Config) -> Iterator[tuple[Path, bool]]:
    """Where agents are written down, the user's first and those of plugins, which were approved, last; and
    whether the folder is the project's."""
    home = Path(config.variable("HOME") or "/")
    yield from ((config.folder / "agents", False), (home / ".claude" / "agents", False))
    yield from ((workspace / name / "agents", True) for name in (".mainspring", ".claude"))
    yield from ((place, False) for each in usable_folders(config, workspace)[0] for place in each.agents)


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
    """Children are at work while their parent is open; they end before it."""
    if agents is None:
        yield
        return
    async with agents.beside(session, config, store, sandbox, origin, allow_home=allow_home):
        yield

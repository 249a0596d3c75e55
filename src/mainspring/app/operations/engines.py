"""Who can take turns here, where their programs are, and which versions they say they have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from mainspring import __version__
from mainspring.app.plugins import engine_settings
from mainspring.app.policies import confinement_of
from mainspring.engines.builtin import NAME as BUILTIN
from mainspring.engines.catalog import COMMANDS, described, find_engine, find_program
from mainspring.engines.outside import remedy, version_of
from mainspring.errors import UsageError
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.settings import Config


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An engine as it is set up here. Without a path it is not installed, and `remedy` says what to do."""

    engine: str
    title: str
    is_installed: bool
    path: str = ""
    version: str = ""
    remedy: str = ""


async def list_engines(config: Config, folder: Path) -> list[EngineStatus]:
    """Our own engine, those that we know, and those of the settings."""
    own = [name for name in engine_settings(config) if name not in (*COMMANDS, "acp", "exec")]
    found = await asyncio.gather(*(_look(name, folder, config) for name in (*COMMANDS, *own)))
    ours = EngineStatus(engine=BUILTIN, title="our own loop", is_installed=True, version=__version__)
    return [ours, *found]


async def _look(name: str, folder: Path, config: Config) -> EngineStatus:
    settings, environment = engine_settings(config), config.environment
    try:
        facts, command, _ = described(name, settings)
        path = find_program(command[0], environment)
        if path is None:
            how = remedy(name, facts)
            return EngineStatus(engine=name, title=facts.title, is_installed=False, remedy=how)
        outside = find_engine(name, settings, environment)
    except UsageError as error:
        text = f"{error.message} {error.remedy}".strip()
        return EngineStatus(engine=name, title="of your own", is_installed=False, remedy=text)
    version = ""
    if facts.has_version:
        sandbox = PlainSandbox(environment=environment)
        try:
            policy = outside.confinement(confinement_of(folder, "plan", config))
            version = await version_of(outside, sandbox, policy)
        finally:
            await sandbox.close()
    return EngineStatus(engine=name, title=facts.title, is_installed=True, path=path, version=version)

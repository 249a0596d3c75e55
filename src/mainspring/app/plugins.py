"""The plugins that a session, or a command, uses here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from mainspring.plugins.installed import installed_plugins
from mainspring.settings import Config
from mainspring.tools import Tool

if TYPE_CHECKING:
    from mainspring.plugins.loading import FailedPlugin, LoadedPlugin


class UsedPlugins(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded, and what could not be."""

    loaded: Sequence[LoadedPlugin] = ()
    failed: Sequence[FailedPlugin] = ()

    @property
    def tools(self) -> list[Tool]:
        tools = [tool for each in self.loaded for tool in each.plugin.tools]
        return sorted(tools, key=lambda tool: tool.name)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(f"The plugin {each.name} is not used: {each.problem}." for each in self.failed)


def load_plugins(config: Config, *, is_fresh: bool = False) -> UsedPlugins:
    """Loads the plugins that are installed and not disabled; where there are none, nothing is loaded."""
    settings = config.settings.plugins
    if not settings.enabled:
        return UsedPlugins()
    installed = installed_plugins(config.home, is_fresh=is_fresh)
    wanted = [each for each in installed if each.name not in settings.disabled]
    if not wanted:
        return UsedPlugins()
    taken = {tool.name for tool in import_module("mainspring.app.toolset").DEFAULT_TOOLS}
    loaded, failed = import_module("mainspring.plugins.loading").load_plugins(wanted, taken=taken)
    return UsedPlugins(loaded=loaded, failed=failed)

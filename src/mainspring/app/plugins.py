"""The plugins that a session, or a command, uses here: packages that are installed beside mainspring, and
folders that a person added or a project brings. Where there are none, nothing is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.engines.settings import EngineSettings
from mainspring.errors import UsageError
from mainspring.models import Model
from mainspring.models.providers import find_provider
from mainspring.plugins.installed import installed_plugins
from mainspring.settings import Config
from mainspring.tools import Tool
from mainspring.workspace.skills import Broken
from mainspring.workspace.user_commands import UserCommand, find_user_commands, parse_command

if TYPE_CHECKING:
    from mainspring.approvals.trust import Trusted
    from mainspring.plugins.folders import PluginFolder
    from mainspring.plugins.loading import FailedPlugin, LoadedPlugin

_CHECK = "plugin:"


_TRUST = "mainspring.approvals.trust"


class UsedPlugins(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded, and what could not be."""

    loaded: Sequence[LoadedPlugin] = ()
    failed: Sequence[FailedPlugin] = ()
    folders: Sequence[PluginFolder] = ()
    unusable: Sequence[str] = ()

    @property
    def tools(self) -> list[Tool]:
        tools = [tool for each in self.loaded for tool in each.plugin.tools]
        return sorted(tools, key=lambda tool: tool.name)

    @property
    def hook_files(self) -> list[tuple[str, Path, Path]]:
        """Names, files with hooks, and the folders that the files belong to."""
        packages = [
            (each.plugin.name, file, file.parent) for each in self.loaded if (file := each.plugin.hooks)
        ]
        return packages + [(each.name, file, each.path) for each in self.folders if (file := each.hooks)]

    @property
    def warnings(self) -> tuple[str, ...]:
        failed = (f"The plugin {each.name} is not used: {each.problem}." for each in self.failed)
        return (*failed, *self.unusable)


def load_plugins(config: Config, workspace: Path | None = None, *, is_fresh: bool = False) -> UsedPlugins:
    """Loads the packages that are installed and not disabled, with the folders for work in a workspace."""
    settings = config.settings.plugins
    if not settings.enabled:
        return UsedPlugins()
    folders, unusable = usable_folders(config, workspace) if workspace else ((), ())
    installed = installed_plugins(config.home, is_fresh=is_fresh)
    wanted = tuple(each for each in installed if each.name not in settings.disabled)
    if not wanted:
        return UsedPlugins(folders=folders, unusable=unusable)
    taken = frozenset(tool.name for tool in import_module("mainspring.app.toolset").DEFAULT_TOOLS)
    loaded, failed = import_module("mainspring.plugins.loading").load_plugins(wanted, taken)
    return UsedPlugins(loaded=loaded, failed=failed, folders=folders, unusable=unusable)


def plugin_folders(config: Config, workspace: Path) -> list[PluginFolder]:
    """All plugins that are folders: the user's, and those that a project brings."""
    shelves = {config.folder / "plugins": False, workspace / ".mainspring" / "plugins": True}
    there = {shelf: is_projects for shelf, is_projects in shelves.items() if shelf.is_dir()}
    return import_module("mainspring.plugins.folders").find_folders(there) if there else []


def usable_folders(config: Config, workspace: Path) -> tuple[Sequence[PluginFolder], Sequence[str]]:
    """Those that may be used, and a sentence for each of the others."""
    settings = config.settings.plugins
    if not settings.enabled:
        return (), ()
    found = [each for each in plugin_folders(config, workspace) if each.name not in settings.disabled]
    trust = import_module(_TRUST).TrustFile(config.home).all() if found else ()
    whys = [(each, why_unusable(each, trust)) for each in found]
    told = tuple(f"The plugin {each.name} of {each.path} is not used: {why}." for each, why in whys if why)
    return tuple(each for each, why in whys if not why), told


def why_unusable(folder: PluginFolder, trust: Sequence[Trusted]) -> str:
    """Why a folder is not used; empty when it may be by these approvals."""
    if folder.problem:
        return folder.problem
    state = import_module(_TRUST).trust_state(trust, folder.subject)
    how = "it changed since it was approved" if state == "changed" else "nobody has approved it yet"
    return "" if state == "trusted" else f"{how}; see `mainspring plugins trust {folder.name}`"


def plugin_commands(config: Config, workspace: Path) -> tuple[dict[str, UserCommand], list[Broken]]:
    """The commands of plugins, `PLUGIN:NAME`; and those that cannot be used."""
    used = load_plugins(config, workspace)
    found: dict[str, UserCommand] = {}
    broken: list[Broken] = []
    for each in used.folders:
        named, unusable = find_user_commands(
            dict.fromkeys((place for place in each.commands if place.is_dir()), False),
            each.path,
            prefix=f"{each.name}:",
        )
        found |= named
        broken += unusable
    for plugin in (each.plugin for each in used.loaded):
        for name, text in plugin.commands.items():
            source = Path(f"plugin {plugin.name}")
            read = parse_command(f"{plugin.name}:{name}", text, source)
            if isinstance(read, Broken):
                broken.append(read)
            else:
                found[read.name] = read
    return found, broken


def engine_settings(config: Config) -> Mapping[str, EngineSettings]:
    """What is said about engines: by plugins, and by the user, who counts more."""
    engines = {
        name: settings
        for each in load_plugins(config).loaded
        for name, settings in each.plugin.engines.items()
    }
    return {**engines, **config.settings.engines}


def plugin_model(spec: str, config: Config) -> Model | None:
    """The model that a plugin makes for a name; None when that is nobody's."""
    word, slash, name = spec.partition("/")
    if not slash or "@" in spec or find_provider(word):
        return None
    for each in load_plugins(config).loaded:
        if make := each.plugin.models.get(word):
            return make(name, config.key_environment)
    return None


def plugin_checks(lines: Sequence[str], config: Config) -> tuple[str, ...]:
    """Command lines of checks, with those of plugins in the place of `plugin:PLUGIN/NAME`."""
    if not any(line.startswith(_CHECK) for line in lines):
        return tuple(lines)
    known = {
        f"{_CHECK}{each.plugin.name}/{name}": line
        for each in load_plugins(config).loaded
        for name, line in each.plugin.checks.items()
    }
    for line in lines:
        if line.startswith(_CHECK) and line not in known:
            names = ", ".join(sorted(known)) or "none"
            raise UsageError(
                f"There is no check {line!r}.", remedy=f"`mainspring plugins list` shows them: {names}."
            )
    return tuple(known.get(line, line) for line in lines)

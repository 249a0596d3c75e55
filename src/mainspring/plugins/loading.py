"""Loads the plugins that are installed. One that cannot be used is named with what is wrong, and the others
are used: nothing that a plugin does while it is loaded ends mainspring.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from mainspring.engines.settings import EngineSettings
from mainspring.patterns import lazy_pattern
from mainspring.plugins import API_VERSION, Plugin
from mainspring.plugins.installed import InstalledPlugin, import_folders
from mainspring.secrets.screen import plain_name
from mainspring.tools import Tool
from mainspring.tools.schema import spec_of

_NAME = lazy_pattern(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_TOOL_NAME = lazy_pattern(r"[a-z][a-z0-9_]{0,63}")
_RESERVED = ("mcp__", "find_tools", "call_tool", "notify", "web_search", "delegate", "document")
_MAX_PROBLEM = 300


class LoadedPlugin(msgspec.Struct, frozen=True):
    plugin: Plugin
    found: InstalledPlugin


class FailedPlugin(msgspec.Struct, frozen=True):
    """A plugin that is not used, and why. Both texts can be shown on a screen."""

    name: str
    problem: str


@lru_cache(maxsize=4)
def load_plugins(
    installed: tuple[InstalledPlugin, ...], taken: frozenset[str]
) -> tuple[tuple[LoadedPlugin, ...], tuple[FailedPlugin, ...]]:
    """Those that can be used, and the others, once in a process. `taken` are names that no tool of a plugin
    may have; of two plugins with one name, or with tools of one name, the first is used."""
    loaded: dict[str, LoadedPlugin] = {}
    failed: list[FailedPlugin] = []
    tools = set(taken)
    for each in installed:
        plugin = _load(each)
        problem = plugin if isinstance(plugin, str) else _problem(plugin, each, loaded, tools)
        if isinstance(plugin, str) or problem:
            failed.append(FailedPlugin(plain_name(each.name)[:80], plain_name(problem)[:_MAX_PROBLEM]))
            continue
        loaded[plugin.name] = LoadedPlugin(plugin, each)
        tools.update(tool.name for tool in plugin.tools)
    return tuple(loaded.values()), tuple(failed)


def plugin_problem(plugin: Plugin, taken: Collection[str] = ()) -> str:
    """What is wrong with a plugin by itself; empty when it can be used."""
    return next(_problems(plugin, taken), "")


def is_plugin_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _load(found: InstalledPlugin) -> Plugin | str:
    module, _, attribute = found.target.partition(":")
    try:
        with _only_installed():
            value: Any = import_module(module.strip())
            for part in filter(None, attribute.partition("[")[0].strip().split(".")):
                value = getattr(value, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's fault is told, and ends nothing
        return f"{type(error).__name__}: {error}"
    return value if isinstance(value, Plugin) else f"{found.target} is no mainspring.plugins.Plugin"


@contextmanager
def _only_installed() -> Generator[None]:
    """While this lasts no module is taken from the folder that the program was started in."""
    before = sys.path[:]
    sys.path[:] = import_folders()
    try:
        yield
    finally:
        sys.path[:] = before


def _problem(
    plugin: Plugin, found: InstalledPlugin, loaded: Mapping[str, LoadedPlugin], tools: Collection[str]
) -> str:
    problem = plugin_problem(plugin, tools)
    if not problem and plugin.name != found.name:
        return f"its entry point is named {found.name}, and it calls itself {plugin.name}"
    if not problem and plugin.name in loaded:
        return f"there is another plugin of that name, from {loaded[plugin.name].found.package}"
    return problem


def _problems(plugin: Plugin, taken: Collection[str]) -> Iterator[str]:
    if plugin.api != API_VERSION:
        yield f"it was written for version {plugin.api} of the plugin API; this mainspring has {API_VERSION}"
    if not isinstance(cast("Any", plugin.name), str) or not is_plugin_name(plugin.name):
        yield "its name must have lower-case letters, digits and hyphens, at most 64"
    yield from _tool_problems(plugin.tools, taken)
    for field, kind in (("checks", str), ("commands", str), ("engines", EngineSettings)):
        yield from _mapping_problems(field, getattr(plugin, field), kind)
    yield from _mapping_problems("models", plugin.models, None)
    if not isinstance(cast("Any", plugin.subscribers), tuple) or not all(map(callable, plugin.subscribers)):
        yield "its subscribers must be a tuple of functions"
    hooks: Any = plugin.hooks
    if hooks is not None and not (isinstance(hooks, Path) and hooks.is_file()):
        yield f"its hooks must be a file of the package, and {hooks} is none"


def _tool_problems(tools: Any, taken: Collection[str]) -> Iterator[str]:
    if not isinstance(tools, tuple) or not all(isinstance(each, Tool) for each in cast("Any", tools)):
        yield "its tools must be a tuple of Tools, as `mainspring.tool` makes them"
        return
    names = set(taken)
    for tool in cast("tuple[Tool, ...]", tools):
        if not _TOOL_NAME.fullmatch(tool.name) or tool.name.startswith(_RESERVED):
            yield f"the tool {tool.name!r} may not have that name"
        if tool.name in names:
            yield f"there is another tool named {tool.name}"
        names.add(tool.name)
        try:
            spec_of(tool)
        except TypeError as error:
            yield f"the arguments of the tool {tool.name} have no JSON schema: {error}"


def _mapping_problems(field: str, value: Any, kind: type | None) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"its {field} must be a mapping by name"
        return
    for name, each in cast("Mapping[Any, Any]", value).items():
        if not isinstance(name, str) or not is_plugin_name(name):
            yield f"{name!r} among its {field} is no name of lower-case letters, digits and hyphens"
        elif not (callable(each) if kind is None else isinstance(each, kind)):
            yield f"{name} among its {field} is a {type(each).__name__}"

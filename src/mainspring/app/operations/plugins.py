"""The plugins here, with what each brings and what is wrong with it."""

from __future__ import annotations

from typing import Literal

import msgspec

from mainspring.app.plugins import load_plugins
from mainspring.plugins import Plugin
from mainspring.plugins.installed import installed_plugins
from mainspring.secrets.screen import plain_name
from mainspring.settings import Config

PluginState = Literal["ready", "failed", "disabled"]


class PluginEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`source` is where it comes from, `brings` what it adds, in words, `problem` why it is not used."""

    name: str
    source: str
    state: PluginState
    version: str = ""
    brings: tuple[str, ...] = ()
    problem: str = ""


def list_plugins(config: Config) -> list[PluginEntry]:
    """All plugins that are installed; those in use are loaded for it."""
    used = load_plugins(config, is_fresh=True)
    brings = {each.found: brought_by(each.plugin) for each in used.loaded}
    problems = {each.name: each.problem for each in used.failed}
    entries: list[PluginEntry] = []
    for found in installed_plugins(config.home):
        name = plain_name(found.name)[:80]
        problem = "" if found in brings else problems.get(name, "")
        entries.append(
            PluginEntry(
                name=name,
                source=plain_name(found.package),
                state="ready" if found in brings else "failed" if problem else "disabled",
                version=plain_name(found.version),
                brings=brings.get(found, ()),
                problem=problem,
            )
        )
    return entries


def brought_by(plugin: Plugin) -> tuple[str, ...]:
    """What a plugin adds, in words."""
    found = [f"tool {name}" for name in sorted(tool.name for tool in plugin.tools)]
    return (*found, "event subscriber") if plugin.subscribers else tuple(found)

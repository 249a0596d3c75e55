"""The hooks for work in a folder, if any: what deals with them is loaded then."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.app.plugins import UsedPlugins, load_plugins
from mainspring.sandbox import Confinement, Sandbox
from mainspring.secrets.recorder import Recorder
from mainspring.settings import Config

if TYPE_CHECKING:
    from mainspring.app.hook_files import LoadedHooks
    from mainspring.approvals.permit import Gate

HOOKS_FILE = "hooks.json"


def hook_paths(workspace: Path, config: Config) -> dict[str, Path]:
    """Where hooks may be written, by the names that people know these places by. The first is the user's own;
    the others are approved before they count."""
    home = Path(config.variable("HOME") or "/")
    return {
        HOOKS_FILE: config.folder / HOOKS_FILE,
        "~/.claude/settings.json": home / ".claude" / "settings.json",
        f".mainspring/{HOOKS_FILE}": workspace / ".mainspring" / HOOKS_FILE,
        ".claude/settings.json": workspace / ".claude" / "settings.json",
        ".claude/settings.local.json": workspace / ".claude" / "settings.local.json",
    }


def hooks_of(workspace: Path, config: Config, plugins: UsedPlugins) -> LoadedHooks | None:
    """The hooks that count here; None when there is no file that could have any."""
    is_any = any(map(os.path.lexists, hook_paths(workspace, config).values()))
    if not is_any and not plugins.hook_files:
        return None
    return import_module("mainspring.app.hook_files").load_hooks(workspace, config, plugins)


def gate_of(
    confinement: Confinement, mode: str, config: Config
) -> Callable[[Recorder, Sandbox], Gate | None]:
    """Gives the hooks before a command without an agent, once it has a record and a sandbox."""
    place = confinement.workspace
    found = hooks_of(place, config, load_plugins(config, place))
    if found is None:
        return lambda _recorder, _sandbox: None
    return lambda recorder, sandbox: found.before(recorder, sandbox, confinement, mode)

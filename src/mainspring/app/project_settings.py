"""Settings for one project. They are the user's and lie in the settings folder, because a repository is not
trusted with settings; they hold for sessions and commands in that project and come before `config.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from mainspring.app.workspaces import AllowHome, check_workspace
from mainspring.errors import ConfigError
from mainspring.settings import Config, parse_settings, settings_content, settings_text
from mainspring.workspace.instructions import repository_root
from mainspring.workspace.memory import project_name

FOLDER = "project-settings"
MACHINE_ONLY = ("audit", "daemon", "journal", "login", "policy", "retention", "store", "telemetry")
"""What is about all sessions together, and cannot differ between projects."""


def project_file(config: Config, folder: Path) -> Path:
    """Where the settings of the project are kept that a folder belongs to."""
    root = repository_root(folder.expanduser().resolve())
    return config.folder / FOLDER / f"{project_name(root)}.toml"


def settle(config: Config, place: Path, *, allow_home: AllowHome) -> tuple[Config, bool]:
    """The settings for work in a workspace, and whether it may hold the home folder; raises `UsageError` when
    it does and may not."""
    config = in_project(config, place)
    return config, check_workspace(place, config, allow_home=allow_home)


def in_project(config: Config, folder: Path) -> Config:
    """The settings for work in a folder."""
    file = project_file(config, folder)
    text = settings_text(file)
    content = settings_content(text, file)
    if not content:
        return config
    for name in MACHINE_ONLY:
        if name in content:
            raise ConfigError(
                f"{file} is not valid: [{name}] is for all projects together.",
                remedy="Set it in config.toml instead.",
            )
    parse_settings(content, file, text)
    merged = _merged(msgspec.to_builtins(config.settings), content)
    return msgspec.structs.replace(config, settings=parse_settings(merged, file, text))


def _merged(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        before = merged.get(key)
        is_table = isinstance(before, dict) and isinstance(value, dict)
        merged[key] = (
            _merged(cast("dict[str, Any]", before), cast("dict[str, Any]", value)) if is_table else value
        )
    return merged

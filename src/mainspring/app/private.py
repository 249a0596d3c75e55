"""Keeps the folders of data and settings for their owner only, also those that an older version left open."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Literal

from mainspring.disk.files import close_to_others, close_tree
from mainspring.settings import Config, load_config

WorktreeKind = Literal["fixes", "farms"]

DATA_NAMES = (
    *("sessions", "steps", "memory", "contents", "daemon", "artifacts", "workspaces", "models", "web"),
    *("audit", "shared"),
    *("index.sqlite*", "grants.*", "schedules*", "healed.*", "price-table.json", "debug.log*", "day.lock"),
    *("model-lists.json", "plugin-index", "trust.json", "retention.log"),
    *("mcp", "notify", "login", "team", "entered", "impact", "code-index", "telemetry"),
)
SETTINGS_NAMES = (
    "config.toml",
    "config.lock",
    "approvals.toml",
    "daemon.env",
    "keys.*",
    "store.key",
    "project-settings",
    "plugins",
    *("hooks.json", "policy.key", "profiles", "commands", "skills", "agents"),
)
"""What is ours in the folders of data and settings, as patterns: MAINSPRING_HOME may be a folder with other
things in it."""


def cache_folder(config: Config) -> Path:
    """Where fixes and farms have their worktrees, which are not data that is kept."""
    base = config.variable("XDG_CACHE_HOME") or Path(config.variable("HOME") or "/") / ".cache"
    return Path(base) / "mainspring"


def worktree_folder(config: Config, kind: WorktreeKind, tag: str) -> Path:
    """Where a fix or farm of this data folder has its worktrees, below its `tag`."""
    return cache_folder(config) / kind / f"{_mark(config)}-{tag}"


def own_worktrees(config: Config) -> Iterator[Path]:
    """The worktrees that were made for sessions of this data folder. Earlier versions did not note whose one
    is: those count as ours in the usual data folder."""
    for pattern in ("fixes/*", "farms/*/*"):
        for tree in sorted(cache_folder(config).glob(pattern)):
            mark, dash, _ = tree.relative_to(cache_folder(config)).parts[1].partition("-")
            if mark == _mark(config) if dash else not config.variable("MAINSPRING_HOME"):
                yield tree


def _mark(config: Config) -> str:
    return hashlib.sha256(str(config.home.resolve()).encode()).hexdigest()[:8]


def private_config(config: Config | None) -> Config:
    """The settings, with the data that they name closed to other users."""
    config = config or own_config()
    make_private(config)
    return config


def own_config() -> Config:
    """The settings of this process, with who is logged in as who gives its commands."""
    config = load_config()
    if not config.settings.login.issuer:
        return config
    return import_module("mainspring.app.login").with_login(config)


def make_private(config: Config) -> tuple[Path, ...]:
    """Closes the folders of data and settings to other users, and gives those that were open to them. What is
    inside is looked at only when a folder, or the list of sessions in it, was open."""
    return tuple(folder for folder in dict.fromkeys((config.home, config.folder)) if _close(folder))


def _close(folder: Path) -> bool:
    is_open = any(_is_open(path) for path in (folder, folder / "index.sqlite"))
    if is_open:
        for path in (path for name in (*DATA_NAMES, *SETTINGS_NAMES) for path in folder.glob(name)):
            close_tree(path)
        # Last: when we are killed before, the next one sees that there is more to do.
        close_to_others(folder)
    return is_open


def _is_open(path: Path) -> bool:
    if sys.platform == "win32":  # which has access lists instead
        return False
    with suppress(OSError):
        found = path.stat()
        return found.st_uid == os.geteuid() and bool(found.st_mode & 0o077)
    return False

"""Every place that mainspring wrote to on this machine, and how they are removed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.app.agents_beside import worktrees_folder
from mainspring.app.operations.daemon import service_unit
from mainspring.app.operations.keys import keyring_keys, remove_keyring_keys
from mainspring.app.operations.processes import list_processes
from mainspring.app.operations.sessions import list_sessions
from mainspring.app.private import DATA_NAMES, SETTINGS_NAMES
from mainspring.app.records import workspace_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import running
from mainspring.daemon.files import DaemonFiles
from mainspring.disk.scratch import left_behind, remove
from mainspring.disk.usage import bytes_in
from mainspring.errors import UsageError
from mainspring.settings import Config

WrittenKind = Literal["data", "settings", "unit", "scratch"]


class WrittenPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of ours."""

    kind: WrittenKind
    path: Path
    bytes: int


class WrittenPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """`places` can be removed; `workspaces` are the folders of people's projects that sessions worked in,
    which stay as they are. `keyring` are variables whose keys lie in the keyring; they go with settings."""

    places: tuple[WrittenPlace, ...]
    workspaces: tuple[str, ...]
    keyring: tuple[str, ...] = ()


async def written_places(config: Config) -> WrittenPlaces:
    """What there is of ours, apart from the program itself."""
    store = sessions_of(config)
    workspaces = {workspace_of(row, store, config) for row in await list_sessions(config)}
    data = _of_folder(config, config.home, DATA_NAMES)
    settings = _of_folder(config, config.folder, SETTINGS_NAMES)
    found: dict[Path, WrittenKind] = {**dict.fromkeys(settings, "settings"), **dict.fromkeys(data, "data")}
    found |= dict.fromkeys(_files_elsewhere(config), "data")
    found |= {each: "data" for each in (worktrees_folder(config),) if each.is_dir()}
    unit = service_unit(config).path
    found |= dict.fromkeys(unit.parent.glob(unit.name), "unit")
    found |= dict.fromkeys(left_behind(Path(tempfile.gettempdir())), "scratch")
    return WrittenPlaces(
        places=tuple(
            WrittenPlace(kind=kind, path=path, bytes=bytes_in(path)) for path, kind in found.items()
        ),
        workspaces=tuple(sorted(filter(None, workspaces))),
        keyring=keyring_keys(config),
    )


async def check_idle(config: Config) -> None:
    """Raises `UsageError` while something of ours runs on this data folder."""
    daemon = DaemonFiles(config.home).owner()
    if daemon is not None:
        raise UsageError(
            f"The daemon runs: process {daemon.pid}.", remedy="Stop it first: mainspring daemon stop."
        )
    store = sessions_of(config)
    for session in await store.names():
        if owner := await running(store, session):
            raise UsageError(
                f"Session {session} runs: {owner.name}.",
                remedy="Stop that process, or wait for it to end.",
            )
    for process in await list_processes(config):
        raise UsageError(
            f"Session {process.session} has a background process that runs: {process.handle}.",
            remedy=f"End it: mainspring stop {process.session} {process.handle}.",
        )


def remove_places(config: Config, places: tuple[WrittenPlace, ...]) -> tuple[Path, ...]:
    """Removes them, with the folders that this leaves empty; gives those that could not be removed. With the
    settings go the keys in the keyring, first, because the settings say where they are."""
    if any(each.kind == "settings" for each in places):
        remove_keyring_keys(config)
    for place in places:
        if place.path.is_dir() and not place.path.is_symlink():
            remove(place.path)
        else:
            place.path.unlink(missing_ok=True)
    for folder in dict.fromkeys((config.home, config.folder)):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return tuple(place.path for place in places if place.path.exists())


def _files_elsewhere(config: Config) -> Iterator[Path]:
    """The files that the settings put outside of our folders."""
    for path in (config.log_file, config.daily_anchor):
        if path is not None and path.is_file() and not path.is_relative_to(config.home):
            yield path


def _of_folder(config: Config, folder: Path, names: tuple[str, ...]) -> list[Path]:
    """What is ours in a folder: all of it, unless MAINSPRING_HOME names one that may hold other things."""
    if not config.variable("MAINSPRING_HOME"):
        return [folder] if folder.exists() else []
    return [path for name in names for path in sorted(folder.glob(name))]

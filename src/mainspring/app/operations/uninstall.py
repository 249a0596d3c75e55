"""Every place that mainspring wrote to on this machine, and how they are removed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.app.agents_beside import worktrees_folder
from mainspring.app.operations.daemon import service_unit
from mainspring.app.operations.devices import Access
from mainspring.app.operations.keys import keyring_keys, remove_keyring_keys
from mainspring.app.operations.processes import list_processes
from mainspring.app.operations.sessions import list_sessions
from mainspring.app.private import DATA_NAMES, SETTINGS_NAMES, cache_folder
from mainspring.app.records import workspace_of
from mainspring.app.stores import commands_of, sessions_of
from mainspring.catalog import running
from mainspring.daemon.files import DaemonFiles
from mainspring.disk.scratch import left_behind, remove
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.disk.usage import bytes_in
from mainspring.errors import UsageError
from mainspring.settings import Config
from mainspring.system import host_name

_UNIT_BYTES = 64 * 1024
_UNIT_HOME = 'Environment="MAINSPRING_HOME='

COMPLETIONS = (
    ".local/share/bash-completion/completions/mainspring",
    ".zfunc/_mainspring",
    ".config/fish/completions/mainspring.fish",
)
"""Where `mainspring completion` tells people to put its script, below their home."""

WrittenKind = Literal["data", "settings", "unit", "completion", "scratch"]


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
    """What there is of ours, apart from the program. Settings come last: they say where the rest is."""
    store = sessions_of(config)
    workspaces = {workspace_of(row, store, config) for row in await list_sessions(config)} - {""}
    copies = [each for each in (worktrees_folder(config), *_caches(config, workspaces)) if each.is_dir()]
    workspaces = {each for each in workspaces if not any(map(Path(each).is_relative_to, copies))}
    data = _of_folder(config, config.home, DATA_NAMES)
    found: dict[Path, WrittenKind] = dict.fromkeys((*data, *_files_elsewhere(config), *copies), "data")
    found |= dict.fromkeys(_units(config), "unit")
    home = Path(config.variable("HOME") or "/")
    found |= dict.fromkeys((each for name in COMPLETIONS if (each := home / name).is_file()), "completion")
    found |= dict.fromkeys(left_behind(Path(tempfile.gettempdir())), "scratch")
    settings = _of_folder(config, config.folder, SETTINGS_NAMES)
    found |= {each: "settings" for each in settings if each not in found}
    return WrittenPlaces(
        places=tuple(
            WrittenPlace(kind=kind, path=path, bytes=bytes_in(path)) for path, kind in found.items()
        ),
        workspaces=tuple(sorted(workspaces)),
        keyring=keyring_keys(config),
    )


async def check_idle(config: Config) -> None:
    """Raises `UsageError` while something of ours runs on this data folder."""
    daemon = DaemonFiles(config.home).owner()
    if daemon is not None:
        raise UsageError(
            f"The daemon runs: process {daemon.pid}.", remedy="Stop it first: mainspring daemon stop."
        )
    if address := Access(config).address:
        raise UsageError(f"A server runs at {address}.", remedy="Stop it first: Ctrl-C where it was started.")
    for store, what in ((sessions_of(config), "Session"), (commands_of(config), "Command")):
        for name in await store.names():
            owner = await running(store, name)
            if owner and owner.host == host_name():  # of a shared store other machines run some, too
                raise UsageError(
                    f"{what} {name} runs: {owner.name}.", remedy="Stop that process, or wait for it to end."
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
        with suppress(OSError):
            if place.path.is_dir() and not place.path.is_symlink():
                remove(place.path)
            else:
                place.path.unlink(missing_ok=True)
    for folder in dict.fromkeys((config.home, config.folder)):
        if folder.is_dir() and not any(folder.iterdir()):
            with suppress(OSError):
                folder.rmdir()
    return tuple(place.path for place in places if os.path.lexists(place.path))


def _caches(config: Config, workspaces: Collection[str]) -> Iterator[Path]:
    """Worktrees of fixes and farms; of several data folders those that the sessions of this one work in."""
    folder = cache_folder(config)
    if not config.variable("MAINSPRING_HOME"):
        yield folder
        return
    for tree in (*folder.glob("fixes/*"), *folder.glob("farms/*")):
        if any(Path(each).is_relative_to(tree) for each in workspaces):
            yield tree


def _units(config: Config) -> Iterator[Path]:
    """The unit of this data folder's daemon, and the link by which systemd starts it."""
    path = service_unit(config).path
    try:
        told = read_untrusted_text(path, max_bytes=_UNIT_BYTES)
    except OSError:
        return
    homes = [
        [line for line in text.splitlines() if line.startswith(_UNIT_HOME)]
        for text in (told, service_unit(config).text)
    ]
    if homes[0] == homes[1]:
        yield from path.parent.glob(f"*.wants/{path.name}")
        yield path


def _files_elsewhere(config: Config) -> Iterator[Path]:
    """The files that the settings put outside of our folders."""
    for path in (config.log_file, config.daily_anchor):
        if path is not None and path.is_file() and not path.is_relative_to(config.home):
            yield path


def _of_folder(config: Config, folder: Path, names: tuple[str, ...]) -> list[Path]:
    """What is ours in a folder: all of it, unless MAINSPRING_HOME names one that may hold other things."""
    if not config.variable("MAINSPRING_HOME"):
        # A link to another disk, with what it points to.
        found = [folder.resolve(), folder] if folder.is_symlink() else [folder]
        return [each for each in found if each.exists()]
    return [path for name in names for path in sorted(folder.glob(name))]

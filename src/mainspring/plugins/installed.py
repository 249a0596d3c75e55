"""Which plugins are installed beside mainspring, as data: nothing of them is loaded here.

Looking through all distributions takes as long as opening a session, so what was found is kept with the
times of the folders that it was found in; installing or removing a distribution changes those. The folder
that a program was started in is left out: opening a project must not run its code.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.disk.files import write_private
from mainspring.disk.untrusted import read_untrusted
from mainspring.plugins import ENTRY_POINTS

FOLDER = "plugin-index"
_METADATA = ".dist-info"
_MAX_BYTES = 1 << 20


class InstalledPlugin(msgspec.Struct, frozen=True):
    """An entry point: its `target` is `module:attribute`."""

    name: str
    target: str
    package: str
    version: str


class _Index(msgspec.Struct, frozen=True):
    times: tuple[tuple[str, int], ...]
    plugins: tuple[InstalledPlugin, ...]


def installed_plugins(home: Path, *, is_fresh: bool = False) -> tuple[InstalledPlugin, ...]:
    """The plugins of this Python, sorted by name; with `is_fresh` what is kept is not believed."""
    times = _times()
    paths = "\n".join(path for path, _ in times)
    file = home / FOLDER / f"{hashlib.sha256(paths.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.json"
    if not is_fresh:
        with suppress(OSError, msgspec.MsgspecError):
            known = msgspec.json.decode(read_untrusted(file, max_bytes=_MAX_BYTES), type=_Index)
            if known.times == times:
                return known.plugins
    found = _Index(times, _scan([path for path, _ in times]))
    with suppress(OSError):  # a cache that cannot be written, as before the first session, only costs time
        file.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(file, msgspec.json.encode(found), is_synced=False)
    return found.plugins


def import_folders() -> list[str]:
    """Where modules are looked for, without the folder that the program was started in."""
    here = {"", os.getcwd()}  # noqa: PTH109 - compared with texts
    return [path for path in sys.path if path not in here]


def _times() -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for path in dict.fromkeys(import_folders()):
        with suppress(OSError):
            found.append((path, os.stat(path).st_mtime_ns))  # noqa: PTH116 - asked by every session
    return tuple(found)


def _scan(paths: list[str]) -> tuple[InstalledPlugin, ...]:
    """Reads the entry points of all distributions: a tenth of what `importlib.metadata` takes, loading it
    included. Of a distribution that lies in two folders the first counts, as for imports."""
    found: dict[str, tuple[InstalledPlugin, ...]] = {}
    for path in paths:
        with suppress(OSError):
            for name in sorted(os.listdir(path)):
                package, _, version = name.removesuffix(_METADATA).partition("-")
                if name.endswith(_METADATA) and package not in found:
                    points = _entry_points(Path(path) / name / "entry_points.txt")
                    found[package] = tuple(
                        InstalledPlugin(point, target, package.replace("_", "-"), version)
                        for point, target in points
                    )
    plugins = (each for points in found.values() for each in points)
    return tuple(sorted(plugins, key=lambda each: (each.name, each.package)))


def _entry_points(file: Path) -> Iterator[tuple[str, str]]:
    """The names and targets of our group in a file of entry points."""
    try:
        text = read_untrusted(file, max_bytes=_MAX_BYTES).decode("utf-8", "replace")
    except OSError:  # most distributions have none
        return
    is_ours = False
    for line in map(str.strip, text.split("\n")):
        if line.startswith("["):
            is_ours = line == f"[{ENTRY_POINTS}]"
        elif is_ours and line[:1] not in ("", "#", ";"):
            name, _, target = line.partition("=")
            yield name.strip(), target.strip()

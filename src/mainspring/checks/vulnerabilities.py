"""Known vulnerabilities of the packages that a change names, by a local database in the format of OSV: a
folder of JSON files, one file, or an archive as osv.dev publishes it. Nothing is asked of the network."""

from __future__ import annotations

import asyncio
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mainspring.checks import ChangedFile, NotChecked
from mainspring.checks.pins import Pin, names_dependencies, pins_in, plain
from mainspring.disk.untrusted import open_untrusted, read_start
from mainspring.events import CheckFinding

_MAX_ENTRY = 2 << 20
_MAX_WHOLE = 256 << 20
_MAX_ENTRIES = 500_000
_MAX_FOUND = 20
_NO_DATABASE = (
    "known vulnerabilities are looked up where `vulnerabilities` in `[checks]` names a database (OSV)"
)


class _Event(msgspec.Struct):
    introduced: str = ""
    fixed: str = ""
    last_affected: str = ""


class _Range(msgspec.Struct):
    type: str = ""
    events: list[_Event] = []


class _Package(msgspec.Struct):
    ecosystem: str = ""
    name: str = ""


class _Affected(msgspec.Struct):
    package: _Package = msgspec.field(default_factory=_Package)
    ranges: list[_Range] = []
    versions: list[str] = []


class _Entry(msgspec.Struct):
    id: str
    summary: str = ""
    withdrawn: str = ""
    affected: list[_Affected] = []


_Known = dict[tuple[str, str], list[tuple[_Entry, _Affected]]]


class Vulnerabilities:
    """`database` is where the user keeps it; without one nothing is known, which is told."""

    name = "vulnerabilities"

    def __init__(self, database: Path | None) -> None:
        self._database = database
        self._known: _Known | None = None
        self._turn = asyncio.Lock()

    def takes(self, path: str) -> bool:
        return names_dependencies(path)

    async def new(self, changed: ChangedFile) -> list[CheckFinding]:
        old = {pin[:3] for pin in pins_in(changed.path, changed.before or b"")}
        pins = [pin for pin in pins_in(changed.path, changed.after) if pin[:3] not in old]
        if not pins:
            return []
        if self._database is None:
            raise NotChecked(_NO_DATABASE)
        async with self._turn:
            if self._known is None:
                self._known = await asyncio.to_thread(_load, self._database)
        return [self._finding(pin, entry) for pin in pins for entry in _hits(self._known, pin)][:_MAX_FOUND]

    def _finding(self, pin: Pin, entry: _Entry) -> CheckFinding:
        words = " ".join(entry.summary.split())[:120]
        message = f"{pin.name} {pin.version} has a known vulnerability{f': {words}' if words else ''}"
        return CheckFinding(by=self.name, rule=entry.id, line=pin.line, message=message, severity="warning")


def _hits(known: _Known, pin: Pin) -> list[_Entry]:
    found = [
        entry
        for entry, affected in known.get((pin.ecosystem, pin.name), ())
        if _is_affected(pin.version, affected)
    ]
    return [*{entry.id: entry for entry in found}.values()]


def _is_affected(version: str, affected: _Affected) -> bool:
    if version in affected.versions:
        return True
    return any(_is_within(version, each) for each in affected.ranges if each.type != "GIT")


def _is_within(version: str, within: _Range) -> bool:
    """Events in the order of their versions: each beginning or end counts if it is not after the version."""
    here, is_in = order_of(version), False
    events = sorted(
        within.events, key=lambda each: order_of(each.introduced or each.fixed or each.last_affected)
    )
    for event in events:
        if event.introduced and order_of(event.introduced) <= here:
            is_in = True
        if event.fixed and order_of(event.fixed) <= here:
            is_in = False
        if event.last_affected and order_of(event.last_affected) < here:
            is_in = False
    return is_in


def order_of(version: str) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Something to compare versions by: numbers, then whether it is before (-1) or after the release."""
    found = re.match(r"v?(?:\d+!)?(\d+(?:\.\d+)*)(.*)", version.strip().split("+")[0])
    if not found:
        return (), 0, ()
    numbers = tuple(int(part[:18]) for part in found[1].split("."))
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    rest = found[2].lower().lstrip(".-_")
    stage = 0 if not rest else 1 if rest.startswith("post") else -2 if rest.startswith("dev") else -1
    return numbers, stage, tuple(int(part[:18]) for part in re.findall(r"\d+", rest))


def _load(database: Path) -> _Known:
    known: _Known = {}
    try:
        for data in _contents(database):
            for entry in _entries(data):
                for affected in entry.affected if not entry.withdrawn else ():
                    package = affected.package
                    name = plain(package.name) if package.ecosystem == "PyPI" else package.name
                    known.setdefault((package.ecosystem, name), []).append((entry, affected))
    except (OSError, zipfile.BadZipFile, msgspec.MsgspecError, RecursionError) as error:
        raise NotChecked(f"the database {database} cannot be read: {error}") from error
    if not known:
        raise NotChecked(f"the database {database} has no entries")
    return known


def _contents(database: Path) -> Iterator[bytes]:
    if database.is_dir():
        for count, file in enumerate(sorted(database.rglob("*.json"))):
            if count < _MAX_ENTRIES:
                yield read_start(file, max_bytes=_MAX_ENTRY)
    elif database.suffix == ".zip":
        with open_untrusted(database) as opened, zipfile.ZipFile(opened) as archive:
            for each in archive.infolist()[:_MAX_ENTRIES]:
                if each.filename.endswith(".json") and each.file_size <= _MAX_ENTRY:
                    yield archive.read(each)
    else:
        yield read_start(database, max_bytes=_MAX_WHOLE)


def _entries(data: bytes) -> list[_Entry]:
    """One entry, a list of them, or one on each line."""
    start = data.lstrip()[:1]
    if start == b"[":
        return msgspec.json.decode(data, type=list[_Entry])
    if start == b"{" and b"\n{" in data:
        return [msgspec.json.decode(line, type=_Entry) for line in data.splitlines() if line.strip()]
    return [msgspec.json.decode(data, type=_Entry)] if start else []

"""Which versions of which packages a dependency file names: requirements, `pyproject.toml`, `package.json`,
`go.mod`, and the locks of pip, uv, poetry, npm and cargo. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from mainspring.events.decoding import DECODE_ERRORS
from mainspring.patterns import lazy_pattern


class Pin(NamedTuple):
    """A package of an ecosystem, as OSV names both, in a version; `line` is where it stands."""

    ecosystem: str
    name: str
    version: str
    line: int


_REQUIREMENT = lazy_pattern(
    r"[\"'\s]*([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*(?:===?|~=|>=)\s*([0-9][\w.!+-]*)"
)
_SCRIPT = lazy_pattern(r'\s*"((?:@[\w.-]+/)?[\w.-]+)"\s*:\s*"[\^~=v]*([0-9][\w.+-]*)"')
_LOCKED_NAME = lazy_pattern(r'name\s*=\s*"([^"]+)"')
_LOCKED_VERSION = lazy_pattern(r'version\s*=\s*"([^"]+)"')
_GO = lazy_pattern(r"\s*(?:require\s+)?([\w.-]+\.[\w.-]+/[\w./-]+)\s+v([0-9][\w.+-]*)")
_REQUIREMENTS = lazy_pattern(r"(?:.*requirements.*|constraints.*)\.(?:txt|in|lock)")


def pins_in(path: str, content: bytes) -> list[Pin]:
    """Nothing where the file is none of these."""
    read = _reader(path)
    return [*read(content.decode("utf-8", "replace"))] if read else []


def names_dependencies(path: str) -> bool:
    return _reader(path) is not None


def _reader(path: str) -> Callable[[str], Iterator[Pin]] | None:
    name = PurePosixPath(path).name
    if name in _READERS:
        return _READERS[name]
    is_requirements = _REQUIREMENTS.fullmatch(name) or (
        "/requirements/" in f"/{path}" and name.endswith((".txt", ".lock"))
    )
    return _requirements if is_requirements else None


def _requirements(text: str) -> Iterator[Pin]:
    for number, line in enumerate(text.split("\n"), 1):
        if found := _REQUIREMENT.match(line):
            yield Pin("PyPI", plain(found[1]), found[2], number)


def _pyproject(text: str) -> Iterator[Pin]:
    for number, line in enumerate(text.split("\n"), 1):
        for part in re.findall(r"[\"'][^\"']+[\"']", line):
            if found := _REQUIREMENT.match(part):
                yield Pin("PyPI", plain(found[1]), found[2], number)


def _package(text: str) -> Iterator[Pin]:
    for number, line in enumerate(text.split("\n"), 1):
        if (found := _SCRIPT.match(line)) and found[1] not in ("version", "node", "npm"):
            yield Pin("npm", found[1], found[2], number)


def _package_lock(text: str) -> Iterator[Pin]:
    try:
        packages = msgspec.json.decode(text, type=dict[str, Any]).get("packages")
        known = msgspec.convert(packages or {}, dict[str, dict[str, Any]])
    except DECODE_ERRORS:
        return
    lines = {line.strip().split('"')[1]: at for at, line in enumerate(text.split("\n"), 1) if '": {' in line}
    for place, facts in known.items():
        if "node_modules/" in place and isinstance(version := facts.get("version"), str):
            yield Pin("npm", place.rpartition("node_modules/")[2], version, lines.get(place, 0))


def _locked(ecosystem: str) -> Callable[[str], Iterator[Pin]]:
    """`[[package]]` with a name and a version, as uv, poetry and cargo write it."""

    def read(text: str) -> Iterator[Pin]:
        name, at = "", 0
        for number, line in enumerate(text.split("\n"), 1):
            if found := _LOCKED_NAME.match(line):
                name, at = found[1], number
            elif name and (found := _LOCKED_VERSION.match(line)):
                yield Pin(ecosystem, plain(name) if ecosystem == "PyPI" else name, found[1], at)
                name = ""

    return read


def _go(text: str) -> Iterator[Pin]:
    for number, line in enumerate(text.split("\n"), 1):
        if found := _GO.match(line):
            yield Pin("Go", found[1], found[2], number)


def plain(name: str) -> str:
    """How PyPI writes a name."""
    return re.sub(r"[-_.]+", "-", name).lower()


_READERS: dict[str, Callable[[str], Iterator[Pin]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package,
    "package-lock.json": _package_lock,
    "uv.lock": _locked("PyPI"),
    "poetry.lock": _locked("PyPI"),
    "Cargo.lock": _locked("crates.io"),
    "go.mod": _go,
}

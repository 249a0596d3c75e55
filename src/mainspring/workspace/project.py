"""Facts about a project from the files that mark it: its language, and the commands that build and test it.

Pure but for looking at a few names and the heads of a few small files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from mainspring.disk.untrusted import read_start

_MAX_BYTES = 256 * 1024


class Project(msgspec.Struct, frozen=True):
    """What is known; an empty text is not known."""

    languages: tuple[str, ...] = ()
    build: str = ""
    test: str = ""
    marks: tuple[str, ...] = ()


def look_at(folder: Path) -> Project:
    """The facts of a folder. A Makefile's own targets come before what its language would use."""
    found = Project()
    for mark in _MARKS:
        path = folder / mark
        if path.is_file():
            found = _joined(found, _facts(mark, _text(path)), mark)
    return found


@lru_cache(maxsize=256)
def _facts(mark: str, text: str) -> Project:
    """What one file says; the same content is read once."""
    return _MARKS[mark](text)


def _joined(known: Project, more: Project, mark: str) -> Project:
    languages = (*known.languages, *(name for name in more.languages if name not in known.languages))
    return Project(
        languages=languages,
        build=known.build or more.build,
        test=known.test or more.test,
        marks=(*known.marks, mark),
    )


def _text(path: Path) -> str:
    try:
        return read_start(path, max_bytes=_MAX_BYTES, root=path.parent).decode("utf-8", "replace")
    except OSError:
        return ""


def _makefile(text: str) -> Project:
    targets = {
        line.partition(":")[0].strip() for line in text.splitlines() if ":" in line and line[:1].isalpha()
    }
    test = next((f"make {name}" for name in ("test", "check") if name in targets), "")
    return Project(build="make" if targets else "", test=test)


def _pyproject(text: str) -> Project:
    tomllib = import_module("tomllib")  # most workspaces have no such file
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return Project(languages=("Python",))
    tools = tables.get("tool", {})
    is_pytest = "pytest" in str(tables.get("dependency-groups", "")) + str(tables.get("project", "")) or (
        isinstance(tools, dict) and "pytest" in tools
    )
    return Project(languages=("Python",), test="pytest" if is_pytest else "python -m unittest")


def _package_json(text: str) -> Project:
    try:
        package = msgspec.json.decode(text, type=_Package)
    except msgspec.MsgspecError:
        return Project(languages=("JavaScript",))
    build = "npm run build" if "build" in package.scripts else ""
    return Project(
        languages=("JavaScript",), build=build, test="npm test" if "test" in package.scripts else ""
    )


class _Package(msgspec.Struct):
    scripts: dict[str, str] = {}


def _always(language: str, build: str = "", test: str = "") -> Callable[[str], Project]:
    return lambda _: Project(languages=(language,) if language else (), build=build, test=test)


_MARKS: dict[str, Callable[[str], Project]] = {
    "Makefile": _makefile,
    "justfile": _always("", "just", "just test"),
    "pyproject.toml": _pyproject,
    "setup.py": _always("Python"),
    "tox.ini": _always("Python", test="tox"),
    "package.json": _package_json,
    "tsconfig.json": _always("TypeScript"),
    "Cargo.toml": _always("Rust", "cargo build", "cargo test"),
    "go.mod": _always("Go", "go build ./...", "go test ./..."),
    "pom.xml": _always("Java", "mvn package", "mvn test"),
    "build.gradle": _always("Java", "gradle build", "gradle test"),
    "build.gradle.kts": _always("Kotlin", "gradle build", "gradle test"),
    "CMakeLists.txt": _always("C++", "cmake -B build && cmake --build build", "ctest --test-dir build"),
    "Gemfile": _always("Ruby", test="bundle exec rake test"),
    "composer.json": _always("PHP", test="composer test"),
    "mix.exs": _always("Elixir", "mix compile", "mix test"),
    "Package.swift": _always("Swift", "swift build", "swift test"),
    "lakefile.lean": _always("Lean", "lake build"),
    "Project.toml": _always("Julia", test="julia --project -e 'using Pkg; Pkg.test()'"),
}

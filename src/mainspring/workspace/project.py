"""Facts about a project from the files that mark it: its language, and the commands that build and test it.

Pure but for looking at a few names and the heads of a few small files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from mainspring.disk.untrusted import read_start
from mainspring.patterns import lazy_pattern

_MAX_BYTES = 256 * 1024
_MAX_ENTRIES = 500
_USUAL = "python3 -m unittest"  # what every Python has, where nothing names another runner
_TEST_FOLDERS = ("", "tests", "test", "__tests__")
_TEST_FILES = lazy_pattern(
    r"(?P<python>test_[A-Za-z0-9_]+\.py|[A-Za-z0-9_]+_test\.py)|[A-Za-z0-9_.-]+\.test\.[cm]?js|test-[A-Za-z0-9_.-]+\.[cm]?js"
)
_TEST_SCRIPTS = {"test.js": "node", "test.mjs": "node", "test.cjs": "node", "test.sh": "bash"}
_WRITTEN = lazy_pattern(r"```\w*\n([^`\n]+)\n```|`([^`\n]+)`|^[ \t]*\$[ \t]+(\S[^`\n]*)$", re.MULTILINE)
_RUNNERS = lazy_pattern(
    r"(?:python[\d.]*|node|deno|bun|ruby|perl|php|sh|bash|make|npm|npx|yarn|pnpm|pytest|go|cargo|tox|nox|mvn|gradle"
    r"|dotnet|mix|rake|rspec|jest|vitest|\./[\w./-]+)"
)
_TESTING = lazy_pattern(
    r"(?:.*[/_.-])?(?:tests?|spec|check)(?:[/_.-].*)?|unittest|pytest|rspec|jest|vitest|tox|nox"
)


class Project(msgspec.Struct, frozen=True):
    """What is known; an empty text is not known."""

    languages: tuple[str, ...] = ()
    build: str = ""
    test: str = ""
    marks: tuple[str, ...] = ()
    script: str = ""
    """What `test` runs, where that is a script of the project."""


def look_at(folder: Path) -> Project:
    """The facts of a folder. A Makefile's own targets come before what its language would use; where no file
    says how to test, files that are tests by their name do."""
    found = Project()
    for mark in _MARKS:
        path = folder / mark
        if path.is_file():
            found = _joined(found, _facts(mark, _text(path)), mark)
    if found.test not in ("", _USUAL):
        return found
    better = _by_test_files(msgspec.structs.replace(found, test=""), folder)
    return better if better.test else found


def asked_test(project: Project, task: str) -> Project:
    """With the test command that a task gives in code quotes, or after the sign of a prompt: one command
    without signs of the shell, of a program that runs tests, in whatever language the rest is written."""
    for written in _WRITTEN.finditer(task):
        command = (written[1] or written[2] or written[3]).strip()
        words = command.split()
        is_plain = re.fullmatch(r"[\w./:=@, -]+", command) is not None and len(words) < 12
        if is_plain and _RUNNERS.fullmatch(words[0]) and any(map(_TESTING.fullmatch, words)):
            return msgspec.structs.replace(project, test=command)
    return project


def _by_test_files(known: Project, folder: Path) -> Project:
    """The runner that fits the tests which lie in the usual places."""
    for name in _TEST_FOLDERS:
        for path in _entries(folder / name):
            if not name and path.name in _TEST_SCRIPTS:
                test = f"{_TEST_SCRIPTS[path.name]} {path.name}"
                language = "JavaScript" if test.startswith("node") else "Shell"
                return _joined(known, Project(languages=(language,), test=test), path.name)
            if match := _TEST_FILES.fullmatch(path.name):
                language, test = "JavaScript", "node --test"
                if match["python"]:
                    is_plain = "import unittest" in _text(path)
                    place = f" discover -s {name}" if name else ""
                    language = "Python"
                    test = f"python3 -m unittest{place}" if is_plain else "python3 -m pytest"
                return _joined(
                    known, Project(languages=(language,), test=test), path.relative_to(folder).as_posix()
                )
    return known


def _entries(folder: Path) -> list[Path]:
    """The first files of a folder, by name."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name for entry in islice(entries, _MAX_ENTRIES) if entry.is_file(follow_symlinks=False)
            )
    except OSError:
        return []
    return [folder / name for name in names]


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
        script=known.script if known.test else more.script,
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
    return Project(languages=("Python",), test="pytest" if is_pytest else _USUAL)


def _setup_cfg(text: str) -> Project:
    return Project(languages=("Python",), test="pytest" if "[tool:pytest]" in text else "")


def _tox(text: str) -> Project:
    """Settings of pytest may stand in the file of tox, which makes environments and takes its time."""
    return Project(languages=("Python",), test="pytest" if "[pytest]" in text else "tox")


def _package_json(text: str) -> Project:
    try:
        package = msgspec.json.decode(text, type=_Package)
    except msgspec.MsgspecError:
        return Project(languages=("JavaScript",))
    build = "npm run build" if "build" in package.scripts else ""
    script = package.scripts.get("test", "")
    is_real = bool(script) and "no test specified" not in script  # what `npm init` writes
    return Project(
        languages=("JavaScript",),
        build=build,
        test="npm test" if is_real else "",
        script=script if is_real else "",
    )


class _Package(msgspec.Struct):
    scripts: dict[str, str] = {}


def _always(language: str, build: str = "", test: str = "") -> Callable[[str], Project]:
    return lambda _: Project(languages=(language,) if language else (), build=build, test=test)


_MARKS: dict[str, Callable[[str], Project]] = {
    "Makefile": _makefile,
    "justfile": _always("", "just", "just test"),
    "pyproject.toml": _pyproject,
    "pytest.ini": _always("Python", test="pytest"),
    "setup.cfg": _setup_cfg,
    "conftest.py": _always("Python", test="pytest"),
    "setup.py": _always("Python"),
    "tox.ini": _tox,
    "noxfile.py": _always("Python", test="nox"),
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

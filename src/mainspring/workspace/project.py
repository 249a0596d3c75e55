"""Facts about a project from the files that mark it: its language, and the commands that build and test it.

Pure but for looking at a few names and the heads of a few small files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import msgspec

from mainspring.disk.formats import parse_toml
from mainspring.disk.untrusted import read_start
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.patterns import lazy_pattern

_MAX_BYTES = 256 * 1024
_MAX_ENTRIES = 500
_USUAL = "python3 -m unittest"  # what every Python has, where nothing names another runner
_WEAK = ("", _USUAL, "tox", "nox")
"""What comes behind tests that lie there: tox and nox make environments first, without a network."""
_TEST_FOLDERS = ("", "tests", "test", "__tests__")
_MAX_FOLDERS = 20
_PROGRAM = "python3"
_AT_ROOT = "PYTHONPATH=. "
_DEFINES_TESTS = lazy_pattern(r"^\s*(?:async )?def test|^class Test|\bdoctest\b", re.MULTILINE)
"""What runners look for; a file of tests without it is a program that asserts."""
_UNITTEST = lazy_pattern(
    r"^[ \t]*(?:import [^#\n]*\bunittest\b(?!\.)|from unittest import [^#\n]*\b(?:\w*TestCase|main)\b)"
    r"|\bunittest\.TestCase\b",
    re.MULTILINE,
)
_OWN_PYTHON = (".venv", "venv")
_TEST_FILES = lazy_pattern(
    r"(?P<python>tests?\.py|test_[A-Za-z0-9_]+\.py|[A-Za-z0-9_]+_test\.py)|[A-Za-z0-9_.-]+\.test\.[cm]?js|test-[A-Za-z0-9_.-]+\.[cm]?js"
)
_RULES = lazy_pattern(r"^([A-Za-z][^:=#\t\n]*?)[ \t]*::?(?![:=])", re.MULTILINE)
_TEST_SCRIPTS = {"test.js": "node", "test.mjs": "node", "test.cjs": "node", "test.sh": "bash"}
_WRITTEN = lazy_pattern(r"```\w*\n([^`\n]+)\n```|`([^`\n]+)`|^[ \t]*\$[ \t]+(\S[^`\n]*)$", re.MULTILINE)
_RUNNERS = lazy_pattern(
    r"(?:python[\d.]*|node|deno|bun|ruby|perl|php|sh|bash|make|npm|npx|yarn|pnpm|pytest|go|cargo|tox|nox|mvn|gradle"
    r"|dotnet|mix|rake|rspec|jest|vitest|uv|poetry|pdm|hatch|pipenv|rye|bundle|just|bats|ctest|composer|swift|julia"
    r"|(?:\./)?(?:[\w.-]+/)*bin/(?:python[\d.]*|pytest)|\./[\w./-]+)"
)
_SETTING = lazy_pattern(r"[A-Z][A-Z0-9_]*=[\w./:-]*")
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
    folder: str = ""
    """Where `test` begins, below the workspace."""


def look_at(folder: Path) -> Project:
    """The facts of a folder. A Makefile's own targets come before what its language would use; where no file
    says how to test, files that are tests by their name do."""
    found = Project()
    for mark in _MARKS:
        path = folder / mark
        if path.is_file():
            found = _joined(found, _facts(mark, _text(path)), mark)
    if found.test in _WEAK:
        better = _by_test_files(msgspec.structs.replace(found, test=""), folder)
        found = better if better.test else found
    return msgspec.structs.replace(found, test=_as_it_runs(found.test, folder))


def project_below(root: Path, changed: Sequence[str]) -> Project:
    """The project that all of these files belong to, in a folder below a root that has no tests of its own;
    its commands begin in that folder."""
    folders = os.path.commonpath(changed).split("/")[: -1 if len(changed) == 1 else None] if changed else []
    for size in range(len(folders), 0, -1):
        place = "/".join(folders[:size])
        folder = root / place
        if folder.is_dir() and folder.resolve().is_relative_to(root.resolve()):
            found = look_at(folder)
            if found.test and found.marks:
                return msgspec.structs.replace(found, folder=place)
    return Project()


def _as_it_runs(test: str, folder: Path) -> str:
    """The command with the project's own environment and wrappers, and with the folder of its sources where
    nothing else says where they are."""
    if test.startswith(("gradle ", "mvn ")):
        wrapper = "gradlew" if test.startswith("gradle") else "mvnw"
        return f"./{wrapper} {test.partition(' ')[2]}" if (folder / wrapper).is_file() else test
    if not test.startswith(("pytest", "python3 -m ")):
        return test
    own = next((each for each in _OWN_PYTHON if (folder / each / "bin/python").exists()), "")
    if own and (
        not test.startswith(("pytest", "python3 -m pytest")) or (folder / own / "bin/pytest").exists()
    ):
        test = test.replace("pytest", "python3 -m pytest", 1) if test.startswith("pytest") else test
        return test.replace("python3", f"{own}/bin/python", 1)
    is_apart = (folder / "src").is_dir() and not (folder / "src/__init__.py").exists()
    says_so = "pythonpath" in _text(folder / "pyproject.toml") + _text(folder / "pytest.ini")
    return f"PYTHONPATH=src {test}" if is_apart and not says_so else test


def asked_test(project: Project, task: str) -> Project:
    """With the test command that a task gives in code quotes, or after the sign of a prompt: one command
    without signs of the shell, of a program that runs tests, in whatever language the rest is written."""
    if "`" not in task and "$" not in task:
        return project
    for written in _WRITTEN.finditer(task):
        command = (written[1] or written[2] or written[3]).strip()
        words = command.split()
        while words and _SETTING.fullmatch(words[0]):
            del words[0]
        is_plain = re.fullmatch(r"[\w./:=@, \[\]'\"-]+", command) is not None and 0 < len(words) < 12
        if is_plain and _RUNNERS.fullmatch(words[0]) and any(map(_TESTING.fullmatch, words)):
            return msgspec.structs.replace(project, test=command)
    return project


def _by_test_files(known: Project, folder: Path) -> Project:
    """The runner that fits the tests which lie in the usual places, or one level below them; where none has
    one, the first that is a program itself."""
    below = [f"{name}/{each}" for name in _TEST_FOLDERS[1:] for each in _folders(folder / name)]
    program = Project()
    for name in (*_TEST_FOLDERS, *below):
        for path in _entries(folder / name):
            if not name and path.name in _TEST_SCRIPTS:
                test = f"{_TEST_SCRIPTS[path.name]} {path.name}"
                language = "JavaScript" if test.startswith("node") else "Shell"
                return _joined(known, Project(languages=(language,), test=test), path.name)
            found, place = _test_file(path, name), path.relative_to(folder).as_posix()
            if found.test == _PROGRAM:
                own = msgspec.structs.replace(found, test=f"{_AT_ROOT if name else ''}python3 {place}")
                program = program if program.test else _joined(known, own, place)
            elif found.test:
                return _joined(known, found, place)
    return program if program.test else known


def _test_file(path: Path, place: str) -> Project:
    """What a file in a place for tests says; nothing when it is none."""
    match = _TEST_FILES.fullmatch(path.name)
    if not match:
        return Project()
    if not match["python"]:
        return Project(languages=("JavaScript",), test="node --test")
    text = _text(path)
    if _UNITTEST.search(text):
        start = f" discover -s {place}" if place else ""
        return Project(languages=("Python",), test=f"python3 -m unittest{start}")
    if "assert" in text and not _DEFINES_TESTS.search(text):
        return Project(languages=("Python",), test=_PROGRAM)
    if path.name in ("test.py", "tests.py"):  # pytest does not look for them by itself
        test = f"python3 -m pytest {path.name}" if "def test_" in text and not place else ""
        return Project(languages=("Python",) if test else (), test=test)
    return Project(languages=("Python",), test="python3 -m pytest")


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            found = [
                each.name for each in islice(entries, _MAX_ENTRIES) if each.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return [name for name in sorted(found) if re.fullmatch(r"[a-z][\w-]*", name)][:_MAX_FOLDERS]


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
    rules = _RULES.findall(text)
    targets = {name for names in rules for name in names.split() if not name.startswith(".")}
    test = next((f"make {name}" for name in ("test", "check") if name in targets), "")
    return Project(build="make" if targets else "", test=test)


def _justfile(text: str) -> Project:
    is_known = re.search(r"^test\b[^:\n]*:(?!=)", text, re.MULTILINE) is not None
    return Project(build="just", test="just test" if is_known else "")


def _named(language: str, runner: str, test: str) -> Callable[[str], Project]:
    """A file that says by the name of a runner how to test."""
    return lambda text: Project(languages=(language,), test=test if runner in text else "")


def _pyproject(text: str) -> Project:
    try:
        tables = parse_toml(text)
    except ValueError:
        return Project(languages=("Python",))
    is_pytest = "pytest" in str({name: tables.get(name) for name in ("tool", "project", "dependency-groups")})
    return Project(languages=("Python",), test="pytest" if is_pytest else _USUAL)


def _setup_cfg(text: str) -> Project:
    return Project(languages=("Python",), test="pytest" if "[tool:pytest]" in text else "")


def _tox(text: str) -> Project:
    """Settings of pytest may stand in the file of tox, which makes environments and takes its time."""
    return Project(languages=("Python",), test="pytest" if "[pytest]" in text else "tox")


def _package_json(text: str) -> Project:
    try:
        package = msgspec.json.decode(text, type=_Package)
    except DECODE_ERRORS:
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
    "GNUmakefile": _makefile,
    "makefile": _makefile,
    "Makefile": _makefile,
    "justfile": _justfile,
    "Justfile": _justfile,
    "pyproject.toml": _pyproject,
    "pytest.ini": _always("Python", test="pytest"),
    "setup.cfg": _setup_cfg,
    "conftest.py": _always("Python", test="pytest"),
    "manage.py": _named("Python", "django", "python3 manage.py test"),
    "setup.py": _always("Python"),
    "requirements.txt": _named("Python", "pytest", "python3 -m pytest"),
    "requirements-dev.txt": _named("Python", "pytest", "python3 -m pytest"),
    "dev-requirements.txt": _named("Python", "pytest", "python3 -m pytest"),
    "Pipfile": _named("Python", "pytest", "python3 -m pytest"),
    "tox.ini": _tox,
    "noxfile.py": _always("Python", test="nox"),
    "package.json": _package_json,
    "bun.lock": _always("JavaScript", test="bun test"),
    "bun.lockb": _always("JavaScript", test="bun test"),
    "deno.json": _always("TypeScript", test="deno test"),
    "tsconfig.json": _always("TypeScript"),
    "Cargo.toml": _always("Rust", "cargo build", "cargo test"),
    "go.mod": _always("Go", "go build ./...", "go test ./..."),
    "pom.xml": _always("Java", "mvn package", "mvn test"),
    "build.gradle": _always("Java", "gradle build", "gradle test"),
    "build.gradle.kts": _always("Kotlin", "gradle build", "gradle test"),
    "CMakeLists.txt": _always("C++", "cmake -B build && cmake --build build", "ctest --test-dir build"),
    ".rspec": _always("Ruby", test="bundle exec rspec"),
    "Gemfile": _always("Ruby", test="bundle exec rake test"),
    "composer.json": _always("PHP", test="composer test"),
    "mix.exs": _always("Elixir", "mix compile", "mix test"),
    "Package.swift": _always("Swift", "swift build", "swift test"),
    "lakefile.lean": _always("Lean", "lake build"),
    "Project.toml": _always("Julia", test="julia --project -e 'using Pkg; Pkg.test()'"),
}

"""Which tests a change may affect, as a command: by the conventions of a language, from names and imports.

Pure: the names of the files, and a way to read one, are given.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Sequence

import msgspec

from mainspring.patterns import lazy_pattern
from mainspring.workspace.project import Project

_MAX_TESTS = 12
_MAX_READ = 200
_TEST_NAME = lazy_pattern(
    r"(?:test_[^/]*|[^/]*_test)\.py|[^/]*[._-](?:test|spec)\.[cm]?[jt]sx?|test-[^/]*\.[cm]?js|[^/]*_test\.go"
    r"|[^/]*_(?:spec|test)\.(?:rb|exs)|[^/]*Tests?\.(?:java|kt|php|cs)"
    r"|(?:test_[^/]*|[^/]*_test)\.(?:c|cc|cpp|cxx|sh|bash)|test\.sh|[^/]*\.bats"
)
_IN_TEST_FOLDER = lazy_pattern(
    r"(?:^|/)(?:tests?|__tests__|spec)/(?!.*(?:^|/)(?:__init__|conftest)\.py$)[^/]+\.(?:[cm]?[jt]sx?)$"
)
_NOT_CODE = lazy_pattern(
    r"\.(?:md|rst|adoc|png|jpe?g|gif|svg|pdf|lock|log)$|(?:^|/)(?:LICENSE|\.gitignore)$", re.IGNORECASE
)
_PYTEST = lazy_pattern(r"(?:PYTHONPATH=\S+ )?(?:(?:\S+/)?python3? -m )?pytest(?: |$)")
_UNITTEST = lazy_pattern(r"(?:PYTHONPATH=\S+ )?(?:\S+/)?python3? -m unittest(?: |$)")
_TAKES_FILES = lazy_pattern(r"^(?:npx )?(?:jest|vitest(?: run)?|mocha|ava|node --test)$")

Read = Callable[[str], str]


def is_test(path: str) -> bool:
    """Whether a file is a test, by its name and place."""
    return bool(_TEST_NAME.fullmatch(path.rpartition("/")[2]) or _IN_TEST_FOLDER.search(path))


def affected_command(project: Project, paths: Sequence[str], changed: Collection[str], read: Read) -> str:
    """The command that runs the tests which a change of these files may affect: a part of the project's own,
    or the whole of it where nothing says which part. Empty when no command is known, or nothing of it is
    code."""
    code = [path for path in changed if not _NOT_CODE.search(path)]
    if not project.test or not code:
        return ""
    if project.folder:
        return _below(project, paths, code, read)
    if project.test.startswith("go test"):
        return _go_command(project, code)
    tests = _affected_tests(paths, code, read)
    return command_for(project, tests) if tests is not None else project.test


def _below(project: Project, paths: Sequence[str], code: Sequence[str], read: Read) -> str:
    """The command of a project in a folder of the workspace, which is begun there."""
    place = f"{project.folder}/"
    inner = affected_command(
        msgspec.structs.replace(project, folder=""),
        [path.removeprefix(place) for path in paths if path.startswith(place)],
        [path.removeprefix(place) for path in code if path.startswith(place)],
        lambda path: read(f"{place}{path}"),
    )
    return f"cd {shlex.quote(project.folder)} && {inner}" if inner else ""


def command_for(project: Project, tests: Sequence[str]) -> str:
    """The command for these test files, or tests by their ids; the whole one where it takes no names."""
    names = shlex.join(dict.fromkeys(tests))
    if not tests or len(tests) > _MAX_TESTS:
        return project.test
    if _PYTEST.match(project.test):
        return f"{project.test} {names}"
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    if _UNITTEST.match(project.test):
        is_plain = all(path.endswith(".py") for path in files)
        return _unittest_command(project.test, files) if is_plain else project.test
    if project.test == "npm test" and _TAKES_FILES.match(project.script):
        return f"npm test -- {shlex.join(files)}"
    if project.test == "node --test":
        return f"node --test {shlex.join(files)}"
    if project.test.startswith("go test"):
        return _go_command(project, files)
    return project.test


def _unittest_command(whole: str, files: Sequence[str]) -> str:
    python = whole.partition(" -m ")[0]
    folders = {path.rpartition("/")[0] for path in files}
    if len(files) == 1 and " discover " in whole:
        folder, _, name = files[0].rpartition("/")
        return f"{python} -m unittest discover -s {shlex.quote(folder or '.')} -p {shlex.quote(name)}"
    return f"{python} -m unittest {shlex.join(files)}" if folders == {""} else whole


def _go_command(project: Project, changed: Sequence[str]) -> str:
    if not all(path.endswith(".go") for path in changed):
        return project.test
    folders = sorted({path.rpartition("/")[0] for path in changed})
    return f"go test {shlex.join(f'./{folder}' if folder else '.' for folder in folders)}"


def _affected_tests(paths: Sequence[str], changed: Sequence[str], read: Read) -> list[str] | None:
    """The tests of the changed files; None when there is a file whose tests nobody can tell."""
    known = set(paths)
    tests = [path for path in paths if is_test(path)]
    found: list[str] = []
    for path in changed:
        if is_test(path):
            found += [path] if path in known else []
            continue
        mine = tests_of(path, tests, read)
        if not mine:
            return None
        found += mine
    return found or None


def tests_of(path: str, tests: Sequence[str], read: Read) -> list[str]:
    """The tests that have the name of a file, and those that import it."""
    name = path.rpartition("/")[2]
    stem = name.partition(".")[0]
    if stem == "__init__":
        return []
    named = re.compile(rf"(?:test[_-])?{re.escape(stem)}(?:[._-](?:test|spec))?")
    imports = re.compile(
        rf"^\s*(?:from|import)\s[^\n]*\b{re.escape(stem)}\b|(?:from|require\(|import\()\s*['\"][^'\"\n]*\b{re.escape(stem)}(?:\.\w+)?['\"]",
        re.MULTILINE,
    )
    return [
        test
        for number, test in enumerate(tests)
        if named.fullmatch(test.rpartition("/")[2].rpartition(".")[0])
        or (number < _MAX_READ and imports.search(read(test)))
    ]

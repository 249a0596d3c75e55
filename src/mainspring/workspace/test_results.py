"""What single tests say, read from the output of a runner: one table of runners, each with what makes it name
every test, and how it names them.

Pure. The output decides which runner it was, so `make test` is read as well as what it runs. Of a runner that
no row knows, only the exit code counts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

import msgspec

from mainspring.patterns import lazy_pattern
from mainspring.workspace.affected import is_test

ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_ADDOPTS": "-q --tb=short -p no:cacheprovider --continue-on-collection-errors -rpxXsfE",
    "NO_COLOR": "1",
}
"""Results as short as runners can make them but with the name of every test, and no caches left behind."""

_MAX_EXCERPT_LINES = 14
_MAX_LINE = 240
_WORDS = lazy_pattern(r"[\w./:=@, '-]+")
_COLOUR = lazy_pattern(r"\x1b\[[0-9;]*m")
_ABOUT_RUNNER = lazy_pattern(
    r"^(?:=+ test session starts =+|platform \w+ --.*|collected \d+ items?.*"
    r"|(?:cachedir|rootdir|configfile|testpaths|plugins): .*)\n",
    re.MULTILINE,
)
_RULE = lazy_pattern(r"([=_-])\1{5,}")
_PYTEST = lazy_pattern(
    r"^(PASSED|XPASS|FAILED|ERROR|XFAIL) (?![\[(])(.+?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE
)
_UNITTEST = lazy_pattern(r"^(?:(?P<worse>FAIL|ERROR): | *)(?P<name>\w+) \((?P<holder>[\w.]+)\)(?P<rest>.*)$")
_UNITTEST_END = lazy_pattern(
    r"(?:^|.* \.\.\. )(?P<how>ok|FAIL|ERROR|skipped|expected failure|unexpected success)(?: ['\"].*)?$"
)
_CARGO = lazy_pattern(r"^test (\S.*?) \.\.\. (ok|FAILED|ignored)", re.MULTILINE)
_GO = lazy_pattern(
    r"^(?P<indent> *)--- (?P<how>PASS|FAIL|SKIP): (?P<test>\S+)|^(?P<end>ok  |FAIL)\t(?P<package>\S+)",
    re.MULTILINE,
)
_TAP = lazy_pattern(
    r"^(?P<indent> *)(?:# Subtest: (?P<begins>.+)"
    r"|(?P<how>ok|not ok) \d+(?: -)? ?(?P<test>.*?)(?P<note> # (?:SKIP|TODO)\b.*)?)$",
    re.MULTILINE | re.IGNORECASE,
)
_MARKS = lazy_pattern(
    r"^(?P<indent> *)(?:(?P<mark>[✔✓√✖✗×✕○﹣↓])|(?P<file>PASS|FAIL) |▶) *(?P<test>\S.*?)"
    r"(?: \(\d+ tests?[^)]*\))?(?: \(?\d+(?:\.\d+)? ?m?s\)?)?(?: # SKIP)?$",
    re.MULTILINE,
)
_SUM = lazy_pattern(
    r"(?im)\b[1-9]\d* (?:tests? )?(?:passed|passing|succeeded)\b|\bran [1-9]\d* tests?\b|^# pass [1-9]"
    r"|\btests run: *[1-9]|\b[1-9]\d* (?:tests?|examples?|runs|assertions)\b|^[.sxXF]+ *\[ *\d+%\]"
)
_MODULE_LEVEL = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")
_GOOD = frozenset({"PASSED", "XPASS", "ok", "unexpected success", "PASS", "✔", "✓", "√"})
_BAD = frozenset({"FAILED", "ERROR", "FAIL", "not ok", "✖", "✗", "×", "✕"})


class TestResults(msgspec.Struct, frozen=True):
    """The tests of one run by their names; a name may also stand for a file or a class that did not load."""

    __test__ = False  # pytest would take it for a test

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.passed or self.failed or self.skipped)


def verbose(command: str) -> str:
    """The command with what makes its runner name every test, where that takes an option."""
    if not _WORDS.fullmatch(command):
        return command
    words = shlex.split(command)
    words = words[1:] if words[:1] and words[0].startswith("PYTHONPATH=") else words
    if words[1:3] == ["-m", "unittest"] and words[0].rpartition("/")[2].startswith("python"):
        return f"{command} -v"
    if words[:2] == ["go", "test"]:
        return f"go test -v{command.removeprefix('go test')}"
    return command


def read_results(output: str) -> TestResults:
    """What a run said of its tests; nothing when no row knows its form. A test that ran twice and failed once
    failed."""
    output = _COLOUR.sub("", output)
    for read in _READERS:
        found: dict[str, set[str]] = {}
        for name, how in read(output):
            found.setdefault(name, set()).add(how)
        if found:
            failed = [name for name, how in found.items() if how & _BAD]
            passed = [name for name, how in found.items() if how & _GOOD and not how & _BAD]
            known = {*failed, *passed}
            skipped = [name for name in found if name not in known]
            return TestResults(tuple(passed), tuple(failed), tuple(skipped))
    return TestResults()


def names_tests(output: str) -> bool:
    """Whether an output says that tests ran, by their names or in a sum."""
    return bool(read_results(output) or _SUM.search(_COLOUR.sub("", output)))


def broken(before: TestResults, now: TestResults) -> list[str]:
    """The tests that passed and fail now, also with a file or class of theirs that no longer loads."""
    failed = set(now.failed)
    found = [name for name in before.passed if not failed.isdisjoint(_with_holders(name))]
    parents = {holder for name in found for holder in _with_holders(name)[1:]}
    return [name for name in found if name not in parents]


def unloaded(before: TestResults, now: TestResults) -> list[str]:
    """The tests that passed and are no longer named, in a run of all of them in which a file fails as a whole
    that had not: runners that do not name a test by its file say only so that the file does not load."""
    known = {*before.passed, *before.failed, *before.skipped}
    has_file = any(name not in known and is_test(name) for name in now.failed)
    return missing(before, now) if has_file else []


def missing(before: TestResults, now: TestResults) -> list[str]:
    """The tests that passed and that a run of all of them no longer names as passed or failed."""
    known, failed = {*now.passed, *now.failed}, set(now.failed)
    return [name for name in before.passed if name not in known and failed.isdisjoint(_with_holders(name))]


def shortened(output: str) -> str:
    """An output without what runners say about themselves, and with short rules."""
    return _RULE.sub(lambda rule: rule[1] * 3, _ABOUT_RUNNER.sub("", _COLOUR.sub("", output)))


def excerpt(output: str, test: str) -> str:
    """The lines of an output that are about a failed test: from where its name stands as a heading."""
    lines = [line[:_MAX_LINE].rstrip() for line in _COLOUR.sub("", output).splitlines()]
    for name in _with_holders(test):
        short = re.split(r"::|\.(?=\w+$)| > ", name)[-1]
        headings = [number for number, line in enumerate(lines) if _is_heading(line, name, short)]
        if headings:
            start = headings[0]
            after = range(start + 1, min(start + _MAX_EXCERPT_LINES, len(lines)))
            end = next((n for n in after if n > start + 2 and _is_rule(lines[n])), after.stop)
            return "\n".join(line for line in lines[start:end] if line.strip("-= "))
    return ""


def _is_heading(line: str, name: str, short: str) -> bool:
    if name not in line and short not in line:
        return False
    return bool(
        re.match(r"_{3,} .* _{3,}$|(?:FAIL|ERROR): |\s*--- FAIL: |---- .* ----$|\s*not ok |\s*[✖✗×✕●] ", line)
    )


def _is_rule(line: str) -> bool:
    return bool(re.match(r"[_=-]{3,}.*[_=-]{3,}$|\s*(?:not )?ok \d|\s*--- (?:FAIL|PASS)|---- ", line))


def _with_holders(name: str) -> list[str]:
    """A test's name and those of what holds it: class, module, file, suite."""
    found = [name]
    plain = name.partition("[")[0]
    for mark in ("::", " > ", "."):
        head = plain
        while mark in head:
            head = head.rpartition(mark)[0]
            found.append(head)
        if len(found) > 1:
            break
    return found


def _pytest(output: str) -> Iterator[tuple[str, str]]:
    return ((match[2], match[1]) for match in _PYTEST.finditer(output))


def _unittest(output: str) -> Iterator[tuple[str, str]]:
    """What a test prints stands between its name and how it ended; its failure is told again below."""
    open_test = ""
    for line in output.splitlines():
        if match := _UNITTEST.match(line):
            open_test = _dotted(match["name"], match["holder"])
            if how := match["worse"]:
                yield open_test, how
                open_test = ""
        if open_test and (end := _UNITTEST_END.match(line)):
            yield open_test, end["how"]
            open_test = ""


def _dotted(name: str, holder: str) -> str:
    if "_FailedTest" in holder:
        return name
    if name in _MODULE_LEVEL or holder.endswith(f".{name}"):
        return holder
    return f"{holder}.{name}"  # before Python 3.11


def _cargo(output: str) -> Iterator[tuple[str, str]]:
    return ((match[1], match[2]) for match in _CARGO.finditer(output))


def _go(output: str) -> Iterator[tuple[str, str]]:
    """A package is named after its tests; one that does not build has none."""
    waiting: list[tuple[str, str]] = []
    for match in _GO.finditer(output):
        if package := match["package"]:
            yield from ((f"{package}::{test}", how) for test, how in waiting)
            if match["end"] == "FAIL" and not any(how == "FAIL" for _, how in waiting):
                yield package, "FAIL"
            waiting = []
        elif match["test"]:
            waiting.append((match["test"], match["how"]))


def _tap(output: str) -> Iterator[tuple[str, str]]:
    above: list[str] = []
    for match in _TAP.finditer(output):
        depth = len(match["indent"]) // 4
        if match["begins"]:
            above[depth:] = [match["begins"]]
        else:
            how = "skipped" if match["note"] else match["how"].lower()
            yield " > ".join([*above[:depth], match["test"]]), how


def _marks(output: str) -> Iterator[tuple[str, str]]:
    """Runners of JavaScript: a mark before each test, or at least a word before each file."""
    above: list[str] = []
    for match in _MARKS.finditer(output.partition("\n✖ failing tests:")[0]):
        depth = len(match["indent"]) // 2
        if how := match["file"] or match["mark"]:
            yield " > ".join([*above[:depth], match["test"]]), how
        above[depth:] = [match["test"]]


_READERS: tuple[Callable[[str], Iterator[tuple[str, str]]], ...] = (
    _pytest,
    _unittest,
    _go,
    _tap,
    _cargo,
    _marks,
)

"""What weakens tests without a change of a test: settings of runners that leave some out, a `conftest.py`
that skips them, and recorded expectations (snapshots, files that tests compare with) that are others. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mainspring.events.counts import plural
from mainspring.patterns import lazy_pattern

_SETTINGS = lazy_pattern(
    r"(?:^|/)(?:conftest\.py|pytest\.ini|setup\.cfg|tox\.ini|pyproject\.toml|package\.json|[Mm]akefile|GNUmakefile"
    r"|justfile|noxfile\.py|\.mocharc(?:\.\w+)?|(?:jest|vitest|vite|playwright)\.config\.\w+)$"
)
_LEAVING_OUT = lazy_pattern(
    r"(?<![\w-])--(?:ignore(?:-glob)?|deselect|passWithNoTests|exit-zero)\b|collect_ignore\w*"
    r"|(?<![\w-])-[km]\b[\s'\",=]*not\b|testPathIgnorePatterns|testNamePattern|passWithNoTests"
    r"|\bpytest_(?:ignore_collect|runtest_makereport)\b|\bpytest_deselected\b|\bitems\[:\]\s*=|\bitems\.(?:clear|remove)\b"
    r"|\bpytest\.(?:skip|exit|importorskip|xfail)\s*\(|\bmark\.(?:skip|skipif|xfail)\b|\bos\._exit\b"
    r"|\b(?:\w*test|jest|mocha|unittest)\b[^\n]{0,200}\|\|\s*(?:true\b|:(?=[\s\"]|$)|exit\s+0\b)"
    r"|(?<=\n)\t-@?\S*(?:test|jest)\b"
    r"|\"test\"\s*:\s*\"(?:true|:|exit 0|echo\b[^\"&|;]*)\""
)
_SHOWN = 60
_TEST_PLACE = lazy_pattern(r"(?:^|/)(?:tests?|__tests__|specs?|testdata)/")
_EXPECTED = lazy_pattern(r"(?:^|/)__snapshots__/|\.(?:snap|ambr|golden|approved(?:\.\w+)?)$|(?:^|/)testdata/")
_EXPECTED_BY_TESTS = lazy_pattern(
    r"(?:^|/)(?:snapshots?|goldens?|expected|expectations|fixtures|cassettes|data)/"
    r"|(?:^|/)[^/]*(?:expected|golden|snapshot)[^/]*$"
)
_CODE = lazy_pattern(
    r"\.(?:py|[cm]?[jt]sx?|go|rs|rb|exs?|java|kt|cs|php|c|cc|cpp|cxx|h|sh|bash|bats|md|rst)$"
)


def is_about_settings(path: str) -> bool:
    """Whether a file says which tests run."""
    return bool(_SETTINGS.search(path))


def is_expectation(path: str) -> bool:
    """Whether tests compare with what stands in a file, by its name and place."""
    if _EXPECTED.search(path):
        return not _CODE.search(path)
    is_below = bool(_TEST_PLACE.search(path))
    return is_below and bool(_EXPECTED_BY_TESTS.search(path)) and not _CODE.search(path)


def left_out(before: str, after: str) -> Iterator[tuple[str, int, str]]:
    """What leaves tests out now and did not: the rule, the line, and words for it."""
    known = [match[0].strip() for match in _LEAVING_OUT.finditer(before)]
    for match in _LEAVING_OUT.finditer(after):
        text = match[0].strip()
        if text in known:
            known.remove(text)
            continue
        line = after.count("\n", 0, match.start()) + 1
        yield "left-out", line, f"`{text[-_SHOWN:]}` leaves tests out, or hides that they fail"


def expected_otherwise(before: str | None, after: str | None) -> Iterator[tuple[str, int, str]]:
    """What is no longer in a file that tests compare with; what is only added weakens nothing."""
    if before is None:
        return
    if after is None:
        yield "deleted", 0, "what tests compare with is gone"
        return
    old, new = before.splitlines(), after.splitlines()
    gone = (Counter(old) - Counter(new)).total()
    if gone:
        known = Counter(old)
        line = next((at for at, each in enumerate(new, 1) if not _taken(known, each)), 0)
        yield (
            "expects-other",
            line,
            f"what tests compare with is another one: {plural(gone, 'line')} of {len(old)}",
        )


def _taken(known: Counter[str], line: str) -> bool:
    known[line] -= 1
    return known[line] >= 0

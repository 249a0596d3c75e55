"""What was taken from tests in languages that are not read as a tree: one table of patterns, as counts in a
file, and the assertions with what stands in their lines, without names. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from mainspring.events.counts import plural
from mainspring.patterns import lazy_pattern

_TOKENS = lazy_pattern(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`\n]*`|\d[\w.]*|[A-Za-z_]\w*|\S")
_KEPT = lazy_pattern(r"to[A-Z]\w*|not|[\W\d].*|(?:is|be|have|eq|ne|nil|null|None|true|false|True|False)")
_IF = lazy_pattern(r"\b(?:if|unless|switch|case)\b")
_PLAIN_TESTS = ("[", "[[", "test")
_BESIDE = (".rs",)
_FIRST_TEST = lazy_pattern(r"#\[cfg\(test\)\]|#\[(?:\w+::)*test\b")
_MAX_LINE = 400
_SHOWN = 80


class _Facts(msgspec.Struct, frozen=True):
    """How a language writes its tests."""

    suffixes: tuple[str, ...]
    case: str
    skip: str
    assertion: str
    comment: str = r"//[^\n]*|/\*.*?\*/"


_LANGUAGES = (
    _Facts(
        (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"),
        case=r"\bx?(?:it|test)(?:\.\w+)*\s*\(\s*['\"`]|\bx?(?:it|test)\.each\b",
        skip=r"\b(?:it|test|describe|suite)\.(?:skip|todo|fixme|only)\b|\bx(?:it|test|describe)\s*\(|\bskip\s*:\s*true",
        assertion=r"\bexpect\s*\((?!\s*true\s*\)\s*\.to(?:Be|Equal)\(\s*true)|\bassert(?:\.\w+)*\s*\((?!\s*true\s*\))",
    ),
    _Facts(
        (".go",),
        case=r"\bfunc\s+Test\w+\s*\(|\b\w+\.Run\s*\(",
        skip=r"\b\w+\.Skip(?:f|Now)?\s*\(|//go:build\s+ignore",
        assertion=r"\b\w+\.(?:Error|Fatal|Fail)(?:f|Now)?\s*\(|\b(?:assert|require)\.\w+\s*\(",
        comment=r"//(?!go:)[^\n]*|/\*.*?\*/",
    ),
    _Facts(
        (".rs",),
        case=r"#\[(?:\w+::)*test\b",
        skip=r"#\[ignore\b|#\[should_panic\b",
        assertion=r"\bassert\w*!\s*\((?!\s*true\s*\))|\bpanic!\s*\(",
    ),
    _Facts(
        (".rb", ".exs"),
        case=r"^\s*x?(?:it|specify|test)\s*\(?['\"]|^\s*def\s+test_",
        skip=r"^\s*x(?:it|describe|context)\b|^\s*skip\b|^\s*pending\b|@tag\s+:skip",
        assertion=r"\bexpect\b|\bassert\w*\b|\brefute\w*\b|\bshould\b",
        comment=r"#(?!\[)[^\n]*",
    ),
    _Facts(
        (".java", ".kt", ".cs", ".php"),
        case=r"@(?:Parameterized)?Test\b|\[(?:Test|Fact|Theory)\b|\bfunction\s+test\w+\s*\(",
        skip=r"@(?:Disabled|Ignore)\b|\[Ignore\b|Skip\s*=|\bmarkTestSkipped\b|\bmarkTestIncomplete\b",
        assertion=r"\bassert\w*\s*\((?!\s*true\s*\))|\bAssert\.\w+\s*\(|\bverify\s*\(|\bshould\w*\b",
    ),
    _Facts(
        (".c", ".cc", ".cpp", ".cxx"),
        case=r"\bTEST\w*\s*\(|\bvoid\s+test\w*\s*\(",
        skip=r"\bDISABLED_\w+|\b(?:GTEST_SKIP|TEST_IGNORE\w*|SKIP)\s*\(|^\s*#\s*if\s+0\b",
        assertion=r"\b(?:assert|ck_assert|ASSERT|EXPECT|CHECK|REQUIRE|TEST_ASSERT)\w*\s*\((?!\s*(?:true|1)\s*\))"
        r"|\breturn\s+(?:[1-9]|EXIT_FAILURE)|\babort\s*\(|\bexit\s*\(\s*(?:[1-9]|EXIT_FAILURE)",
    ),
    _Facts(
        (".sh", ".bash", ".bats"),
        case=r"^\s*@test\b|^\s*(?:function\s+)?test\w*\s*\(\)",
        skip=r"^\s*(?:skip|exit 0|return 0)\b",
        assertion=r"(?:^|[|&;]|\bif|!)\s*(?:test|\[\[?|grep|e?grep|diff|cmp|assert\w*)\s"
        r"|\|\|\s*(?:exit|return|fail|die|false)\b|^\s*python3? -c\b[^\n]*\bassert\b",
        comment=r"(?<!\S)#[^\n]*",
    ),
)


def counted_less(path: str, before: str, after: str | None) -> Iterator[tuple[str, int, str]]:
    """The rule, the line, and words for what a file of tests lost."""
    if path.endswith(_BESIDE):
        before, after = _tests_beside(before), after if after is None else _tests_beside(after)
    for facts in _LANGUAGES:
        if path.endswith(facts.suffixes):
            yield from _less(facts, before, after)
            return


def holds_tests(path: str) -> bool:
    """Whether tests of a language stand beside what they test."""
    return path.endswith(_BESIDE)


def _tests_beside(text: str) -> str:
    """The text from its first test on."""
    found = _FIRST_TEST.search(text)
    return text[found.start() :] if found else ""


def _less(facts: _Facts, before: str, after: str | None) -> Iterator[tuple[str, int, str]]:
    old, new = _counts(facts, before), _counts(facts, after or "")
    if after is None:
        if old[0]:
            yield "deleted", 0, f"deleted, with {plural(old[0], 'test')}"
        return
    if new[0] < old[0]:
        yield "deleted", 0, f"{plural(new[0], 'test')}, and {old[0]} before"
    if new[1] > old[1]:
        match = re.search(facts.skip, after, re.MULTILINE)
        line = after.count("\n", 0, match.start()) + 1 if match else 0
        yield "skipped", line, f"{new[1] - old[1]} more skipped than before"
    if new[2] < old[2]:
        yield "asserts-less", 0, f"{plural(new[2], 'assertion')}, and {old[2]} before"
    elif other := _other(facts, before, after):
        yield "asserts-other", 0, f"no longer asserts `{other[:_SHOWN]}`"


def _counts(facts: _Facts, text: str) -> tuple[int, int, int]:
    bare = _bare(facts, text)
    patterns = (facts.case, facts.skip, facts.assertion)
    cases, skips, asserts = (len(re.findall(each, bare, re.MULTILINE)) for each in patterns)
    return cases, skips, asserts


def _bare(facts: _Facts, text: str) -> str:
    return re.sub(facts.comment, " ", text, flags=re.DOTALL)


def _other(facts: _Facts, before: str, after: str) -> str:
    """The first assertion that no longer stands in a file, whatever its names are."""
    left = Counter(shape for _, shape in _assertions(facts, after))
    for text, shape in _assertions(facts, before):
        if not left[shape]:
            return text
        left[shape] -= 1
    return ""


def _assertions(facts: _Facts, text: str) -> Iterator[tuple[str, str]]:
    """Each line that asserts, and those before it that say when; without its names as well."""
    lines = [line[:_MAX_LINE] for line in _bare(facts, text).split("\n")]
    for number, line in enumerate(lines):
        if match := re.search(facts.assertion, line, re.MULTILINE):
            asked = match[0].strip("( ")
            asked = "" if asked in _PLAIN_TESTS else asked
            condition = lines[number - 1] if number and _IF.search(lines[number - 1]) else ""
            found = _IF.search(line[: match.start()])
            rest = line[found.start() : match.start()] if found else ""
            tokens = _TOKENS.findall(f"{condition} {rest} {line[match.end() :]}".rstrip("; \t"))
            shape = " ".join(each if _KEPT.fullmatch(each) else "_" for each in tokens if each != "]")
            yield f"{condition.strip()} {line.strip()}".strip(), f"{asked} {shape}"

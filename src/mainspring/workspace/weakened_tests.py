"""What was taken from tests: deleted, skipped, emptied of assertions, or made to assert less.

Python is read as a tree; other languages by one table of patterns, as counts in a file. An assertion that
cannot fail (`assert True`, `x == x`, swallowed by an `except`) counts for nothing. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

import msgspec

from mainspring.events import CheckFinding
from mainspring.events.counts import plural
from mainspring.patterns import lazy_pattern
from mainspring.workspace.affected import is_test

BY = "tests"
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ASSERTING = lazy_pattern(r"assert|raises|warns|^fail$|^expect", re.IGNORECASE)
_SKIPPING = lazy_pattern(r"^(?:skip|skipif|skipunless|skiptest|xfail|expectedfailure|importorskip)$")
_IDENTIFIERS = lazy_pattern(r"(?:id|attr|arg)='[^']*'")
_SETTINGS = lazy_pattern(
    r"(?:^|/)(?:conftest\.py|pytest\.ini|setup\.cfg|tox\.ini|pyproject\.toml|package\.json)$"
)
_LEAVING_OUT = lazy_pattern(
    r"--ignore(?:-glob)?[= ]|--deselect[= ]|collect_ignore|\s-k\s*['\"=]?\s*not\b|testPathIgnorePatterns"
    r"|--passWithNoTests|--exit-zero"
)


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


class _Case(msgspec.Struct, frozen=True):
    """One test of a Python file: what it asserts, by text, with the same but for names; how often it runs,
    and whether it runs at all."""

    line: int
    asserts: dict[str, str]
    empty_asserts: int
    cases: int
    is_skipped: bool
    body: str


def is_about_tests(path: str) -> bool:
    """Whether a file is a test, or says which tests run."""
    return is_test(path) or bool(_SETTINGS.search(path))


def weakened(
    path: str, before: str | None, after: str | None, moved: Collection[str] = ()
) -> list[CheckFinding]:
    """What a change took from the tests in a file; nothing where it only adds. `moved` are the names of tests
    that other files have now and did not have before."""
    if _SETTINGS.search(path):
        return _left_out(before or "", after or "")
    if not is_test(path):
        return []
    if path.endswith(".py"):
        return _python(before, after, moved)
    for facts in _LANGUAGES:
        if path.endswith(facts.suffixes):
            return _by_counts(facts, before or "", after)
    return []


def names_of_tests(text: str | None) -> set[str]:
    """The names of the tests in a Python file, without their classes."""
    return {name.rpartition(".")[2] for name in _cases(text) or ()}


def _left_out(before: str, after: str) -> list[CheckFinding]:
    known = [match[0] for match in _LEAVING_OUT.finditer(before)]
    found: list[CheckFinding] = []
    for match in _LEAVING_OUT.finditer(after):
        if match[0] in known:
            known.remove(match[0])
            continue
        line = after.count("\n", 0, match.start()) + 1
        found.append(_finding("left-out", line, f"tests are left out by `{match[0].strip()}`"))
    return found


def _by_counts(facts: _Facts, before: str, after: str | None) -> list[CheckFinding]:
    old, new = _counts(facts, before), _counts(facts, after or "")
    if after is None:
        return [_finding("deleted", 0, f"deleted, with {plural(old[0], 'test')}")] if old[0] else []
    found: list[CheckFinding] = []
    if new[0] < old[0]:
        found.append(_finding("deleted", 0, f"{plural(new[0], 'test')}, and {old[0]} before"))
    if new[1] > old[1]:
        match = re.search(facts.skip, after, re.MULTILINE)
        line = after.count("\n", 0, match.start()) + 1 if match else 0
        found.append(_finding("skipped", line, f"{new[1] - old[1]} more skipped than before"))
    if new[2] < old[2]:
        found.append(_finding("asserts-less", 0, f"{plural(new[2], 'assertion')}, and {old[2]} before"))
    return found


def _counts(facts: _Facts, text: str) -> tuple[int, int, int]:
    bare = re.sub(facts.comment, " ", text, flags=re.DOTALL)
    patterns = (facts.case, facts.skip, facts.assertion)
    cases, skips, asserts = (len(re.findall(each, bare, re.MULTILINE)) for each in patterns)
    return cases, skips, asserts


def _python(before: str | None, after: str | None, moved: Collection[str]) -> list[CheckFinding]:
    old, new = _cases(before), _cases(after)
    if old is None or new is None:  # what cannot be read is told by others
        return []
    found: list[CheckFinding] = []
    added = {case.body for name, case in new.items() if name not in old}
    for name, case in old.items():
        now = new.get(name)
        if now is None:
            if name.rpartition(".")[2] not in moved and case.body not in added:
                found.append(_finding("deleted", 0, f"{name} is gone"))
        elif reason := _less(case, now):
            found.append(_finding(reason[0], now.line, f"{name} {reason[1]}"))
    for name, case in new.items():
        if name not in old and case.empty_asserts and not case.asserts:
            found.append(_finding("empty", case.line, f"{name} asserts nothing that can fail"))
    return found


def _less(before: _Case, now: _Case) -> tuple[str, str] | None:
    """The rule and the words for what a test lost."""
    if now.is_skipped and not before.is_skipped:
        return "skipped", "is skipped now"
    if before.asserts and not now.asserts:
        return "emptied", "asserts nothing any more"
    if len(now.asserts) < len(before.asserts):
        return (
            "asserts-less",
            f"has {plural(len(now.asserts), 'assertion')}, and {len(before.asserts)} before",
        )
    if now.cases < before.cases:
        return "fewer-cases", f"runs for {plural(now.cases, 'case')}, and {before.cases} before"
    left = list(now.asserts.values())
    for text, shape in before.asserts.items():
        if shape not in left:
            return "asserts-other", f"no longer asserts `{text.removeprefix('assert ')[:80]}`"
        left.remove(shape)
    return None


def _finding(rule: str, line: int, message: str) -> CheckFinding:
    return CheckFinding(by=BY, rule=rule, line=line, message=message, severity="warning")


def _cases(text: str | None) -> dict[str, _Case] | None:
    """The tests of a Python file by their names; None when it cannot be read."""
    if text is None:
        return {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    is_skipped = any(_is_skip(statement) for statement in tree.body)
    return dict(_found(tree.body, "", is_skipped=is_skipped))


def _found(body: Sequence[ast.stmt], above: str, *, is_skipped: bool) -> Iterator[tuple[str, _Case]]:
    for item in body:
        if isinstance(item, ast.ClassDef):
            marked = is_skipped or _is_marked(item.decorator_list) or any(map(_is_skip, item.body))
            yield from _found(item.body, f"{above}{item.name}.", is_skipped=marked)
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test"):
            yield f"{above}{item.name}", _case(item, is_skipped=is_skipped)


def _case(item: _Function, *, is_skipped: bool) -> _Case:
    counted = list(_assertions(item.body, is_swallowed=False))
    first = next((each for each in item.body if not _is_docstring(each)), None)
    is_left_at_once = isinstance(first, ast.Return | ast.Raise) or (first is not None and _is_skip(first))
    return _Case(
        line=item.lineno,
        asserts={
            ast.unparse(each): _IDENTIFIERS.sub("", ast.dump(each)) for each, is_real in counted if is_real
        },
        empty_asserts=sum(not is_real for _, is_real in counted),
        cases=_parametrized(item.decorator_list),
        is_skipped=is_skipped or _is_marked(item.decorator_list) or is_left_at_once,
        body=_IDENTIFIERS.sub("", ast.dump(ast.Module(body=item.body, type_ignores=[]))),
    )


def _is_docstring(item: ast.stmt) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)


def _is_marked(decorators: Sequence[ast.expr]) -> bool:
    return any(_SKIPPING.match(_name(each).lower()) for each in decorators)


def _is_skip(item: ast.stmt) -> bool:
    """Whether a statement skips all that follows, or a whole file or class."""
    match item:
        case ast.Expr(value=ast.Call() as call):
            return bool(_SKIPPING.match(_name(call).lower()))
        case ast.Raise(exc=ast.expr() as raised):
            return bool(_SKIPPING.match(_name(raised).lower()))
        case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
            marks = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            return _is_marked(marks)
        case ast.Assign(targets=[ast.Name(id="__test__")], value=ast.Constant(value=False)):
            return True
        case _:
            return False


def _name(node: ast.expr) -> str:
    """The last part of what is called or named."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _parametrized(decorators: Sequence[ast.expr]) -> int:
    cases = 1
    for each in decorators:
        if isinstance(each, ast.Call) and _name(each) == "parametrize" and len(each.args) > 1:
            values = each.args[1]
            cases *= len(values.elts) if isinstance(values, ast.List | ast.Tuple) else 1
    return cases


def _assertions(body: Sequence[ast.AST], *, is_swallowed: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Each assertion below, and whether it can fail."""
    for node in body:
        match node:
            case ast.Assert():
                yield node, not is_swallowed and _can_fail(node.test)
            case ast.Call() if _ASSERTING.search(_name(node)):
                yield node, not is_swallowed and _call_can_fail(node)
            case ast.Try():
                inner = is_swallowed or any(map(_swallows, node.handlers))
                yield from _assertions(node.body, is_swallowed=inner)
                rest = [*node.handlers, *node.orelse, *node.finalbody]
                yield from _assertions(rest, is_swallowed=is_swallowed)
            case _:
                yield from _assertions(list(ast.iter_child_nodes(node)), is_swallowed=is_swallowed)


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Whether an `except` takes failed assertions and goes on."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [_name(each) if each else "" for each in kinds]
    is_wide = any(each in ("", "AssertionError", "Exception", "BaseException") for each in names)
    return is_wide and not any(isinstance(each, ast.Raise) for each in ast.walk(handler))


def _can_fail(test: ast.expr) -> bool:
    match test:
        case ast.Constant():
            return not test.value
        case ast.Compare(left=left, comparators=[right], ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()]):
            return ast.dump(left) != ast.dump(right)
        case ast.BoolOp(op=ast.Or()):
            return all(map(_can_fail, test.values))
        case ast.Tuple():
            return not test.elts  # `assert (x, "text")` always holds
        case _:
            return True


def _call_can_fail(call: ast.Call) -> bool:
    name, given = _name(call), call.args
    if name in ("assertTrue", "assert_") and given:
        return _can_fail(given[0])
    if name in ("assertEqual", "assertIs", "assertEquals") and len(given) > 1:
        return ast.dump(given[0]) != ast.dump(given[1])
    return True

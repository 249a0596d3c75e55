"""What was taken from tests: deleted, skipped, emptied of assertions, or made to assert less.

Python is read as a tree; other languages by patterns (`weakened_by_counts`). An assertion that cannot fail
(`assert True`, `x == x`, swallowed by an `except`) counts for nothing. Pure.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from mainspring.events import CheckFinding
from mainspring.events.counts import plural
from mainspring.patterns import lazy_pattern
from mainspring.workspace.affected import is_test
from mainspring.workspace.weakened_by_counts import counted_less, holds_tests
from mainspring.workspace.weakened_settings import (
    expected_otherwise,
    is_about_settings,
    is_expectation,
    left_out,
)

BY = "tests"
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ASSERTING = lazy_pattern(r"assert|raises|warns|^fail$|^expect", re.IGNORECASE)
_SKIPPING = lazy_pattern(r"^(?:skip|skipif|skipunless|skiptest|xfail|expectedfailure|importorskip)$")
_OF_UNITTEST = lazy_pattern(
    r"assert(?:Not)?(?:Almost)?(?:Equals?|True|False|Is|Is(?:Not|None|NotNone|Instance)|In|Greater\w*|Less\w*|Regex"
    r"|Raises\w*|Warns\w*|Logs|(?:Count|Dict|List|Tuple|Set|Sequence|MultiLine)Equal)$"
)
_MAX_CHARS = 1 << 20
_WIDE = ("Exception", "BaseException")
_SETTING_UP = (
    "setUp",
    "setUpClass",
    "setUpModule",
    "asyncSetUp",
    "setup_method",
    "setup_class",
    "setup_module",
)
_IDENTIFIERS = lazy_pattern(r"(?:id|attr|arg)='[^']*'")


class PythonTest(msgspec.Struct, frozen=True):
    """One test of a Python file: what it asserts, by text, with the same but for names; how often it runs,
    and whether it runs at all. `given` are the values that it runs for, or that a fixture gives; a helper is
    no test, but asserts for tests or gives them values."""

    line: int
    asserts: dict[str, str]
    empty_asserts: int
    cases: int
    is_skipped: bool
    body: str
    given: tuple[str, ...] = ()
    is_helper: bool = False


def is_about_tests(path: str) -> bool:
    """Whether a file is a test, or says which tests run."""
    return is_test(path) or holds_tests(path) or is_about_settings(path) or is_expectation(path)


def weakened(
    path: str, before: str | None, after: str | None, moved: Mapping[str, PythonTest] | None = None
) -> list[CheckFinding]:
    """What a change took from the tests in a file; nothing where it only adds. `moved` are the tests that
    other files have now and did not have before, by their names."""
    if max(len(before or ""), len(after or "")) > _MAX_CHARS:
        return []  # told as not checked by others
    if is_expectation(path):
        return _told(expected_otherwise(before, after))
    settings = _told(left_out(before or "", after or "")) if is_about_settings(path) else []
    if path.endswith(".py") and (is_test(path) or path.rpartition("/")[2] == "conftest.py"):
        return [*settings, *_python(before, after, moved or {})]
    return [
        *settings,
        *_told(counted_less(path, before or "", after) if is_test(path) or holds_tests(path) else ()),
    ]


def cases_in(text: str | None) -> dict[str, PythonTest]:
    """The tests in a Python file by their names, without their classes."""
    found = (_cases(text) or {}).items()
    return {name.rpartition(".")[2]: case for name, case in found if not case.is_helper}


def _python(before: str | None, after: str | None, moved: Mapping[str, PythonTest]) -> list[CheckFinding]:
    old, new = _cases(before), _cases(after)
    if old is None or new is None:  # what cannot be read is told by others
        return []
    found: list[CheckFinding] = []
    added = {case.body for name, case in new.items() if name not in old and not case.is_skipped}
    for name, case in old.items():
        now = new.get(name) or moved.get(name.rpartition(".")[2])
        if now is None:
            if case.body not in added and not case.is_helper:
                found.append(_finding("deleted", 0, f"{name} is gone"))
        elif reason := _less(case, now):
            found.append(_finding(reason[0], now.line if name in new else 0, f"{name} {reason[1]}"))
    for name, case in new.items():
        if name not in old and case.empty_asserts and not (case.asserts or case.is_helper):
            found.append(_finding("empty", case.line, f"{name} asserts nothing that can fail"))
    return found


def _less(before: PythonTest, now: PythonTest) -> tuple[str, str] | None:
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
    if text := _lost(before.asserts.items(), now.asserts.values()):
        return "asserts-other", f"no longer asserts `{text.removeprefix('assert ')[:80]}`"
    if text := _lost(((each, each) for each in before.given), now.given):
        return "other-values", f"no longer has `{text[:80]}`"
    return None


def _lost(before: Iterable[tuple[str, str]], now: Iterable[str]) -> str:
    """The first text whose shape is no longer there."""
    left = Counter(now)
    for text, shape in before:
        if not left[shape]:
            return text
        left[shape] -= 1
    return ""


def _told(found: Iterable[tuple[str, int, str]]) -> list[CheckFinding]:
    return [_finding(*each) for each in found]


def _finding(rule: str, line: int, message: str) -> CheckFinding:
    return CheckFinding(by=BY, rule=rule, line=line, message=message, severity="warning")


def _cases(text: str | None) -> dict[str, PythonTest] | None:
    """The tests of a Python file by their names; None when it cannot be read."""
    if text is None:
        return {}
    try:
        tree = ast.parse(text)
        is_skipped = any(_is_skip(statement) or _skips_all(statement) for statement in tree.body)
        return dict(_found(tree.body, "", is_skipped=is_skipped))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _found(body: Sequence[ast.stmt], above: str, *, is_skipped: bool) -> Iterator[tuple[str, PythonTest]]:
    for item in body:
        if isinstance(item, ast.ClassDef):
            is_found = bool(item.bases) or item.name.startswith("Test")
            marked = is_skipped or not is_found or _is_marked(item.decorator_list)
            marked = marked or any(_is_skip(each) or _skips_all(each) for each in item.body)
            yield from _found(item.body, f"{above}{item.name}.", is_skipped=marked)
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            case = _case(item, is_skipped=is_skipped)
            if item.name.startswith("test") and not _is_fixture(item):
                yield f"{above}{item.name}", case
            else:
                helper = msgspec.structs.replace(case, is_helper=True, is_skipped=False, cases=1)
                yield f"{above}{item.name}", helper


def _case(item: _Function, *, is_skipped: bool) -> PythonTest:
    counted = list(_assertions(item.body, is_swallowed=False))
    return PythonTest(
        line=item.lineno,
        asserts={ast.unparse(each): _shape(each) for each, is_real in counted if is_real},
        empty_asserts=sum(not is_real for _, is_real in counted),
        cases=_parametrized(item.decorator_list),
        is_skipped=is_skipped or _is_marked(item.decorator_list) or _is_left_at_once(item),
        body=_IDENTIFIERS.sub("", ast.dump(ast.Module(body=item.body, type_ignores=[]))),
        given=tuple(_given(item)),
    )


def _shape(assertion: ast.AST) -> str:
    """An assertion without names, but for what it asks and for an exception that any other one is."""
    shape = _IDENTIFIERS.sub("", ast.dump(assertion))
    if not isinstance(assertion, ast.Call):
        return shape
    asked = _name(assertion).removesuffix("s") if _OF_UNITTEST.match(_name(assertion)) else ""
    is_wide = any(_name(each) in _WIDE for each in assertion.args)
    return f"{asked} {shape} {is_wide}"


def _given(item: _Function) -> Iterator[str]:
    """The rows of values that a test runs for, and the constants that a fixture is made of."""
    for each in item.decorator_list:
        if isinstance(each, ast.Call) and _name(each) == "parametrize" and len(each.args) > 1:
            values = each.args[1]
            yield from map(ast.unparse, values.elts if isinstance(values, ast.List | ast.Tuple) else [values])
    if _is_fixture(item):
        body = item.body[1:] if _is_docstring(item.body[0]) else item.body
        for each in (below for statement in body for below in ast.walk(statement)):
            if isinstance(each, ast.Constant) and each.value is not None:
                yield ast.unparse(each)


def _is_fixture(item: _Function) -> bool:
    return item.name in _SETTING_UP or any(_name(each) == "fixture" for each in item.decorator_list)


def _skips_all(item: ast.stmt) -> bool:
    """Whether a function that runs before each test leaves it out."""
    if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    is_automatic = item.name in _SETTING_UP or any(
        isinstance(each, ast.Call) and any(word.arg == "autouse" for word in each.keywords)
        for each in item.decorator_list
    )
    return is_automatic and any(map(_is_skip, item.body))


def _is_left_at_once(item: _Function) -> bool:
    first = next((each for each in item.body if not _is_docstring(each)), None)
    return isinstance(first, ast.Return | ast.Raise) or (first is not None and _is_skip(first))


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

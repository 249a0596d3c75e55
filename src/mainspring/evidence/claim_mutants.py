"""Wrong versions of a check that a true check does not pass: a check that passes one proves nothing.

Of a Python script: every `assert` negated, when nothing else in it can fail; and the numbers of the claim
that it asserts to be equal to something, each another. Of a command line: the last number of the claim that
it is given, another; it may be given the same number twice, as in f(1) = 1. Claims about bounds are left
alone there: a weaker bound may be true as well. Pure.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from copy import deepcopy

import msgspec

from mainspring.events import Claim

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_BOUND = re.compile(
    r"[<>≤≥≲≳]|\b(?:at (?:most|least)|less|more|fewer|greater|smaller|larger|below|above|within|bound\w*"
    r"|up to|about|approximately|from|between|first|up)\b",
    re.IGNORECASE,
)
_EXITS = ("exit", "quit", "_exit", "abort", "fail")


class Mutant(msgspec.Struct, frozen=True):
    """A check as it should not pass: its command line, the files that are another, and `what` was done."""

    what: str
    line: str
    contents: Mapping[str, bytes] = {}


def mutants(claim: Claim, scripts: Mapping[str, str]) -> Iterator[Mutant]:
    """The wrong versions of a check; `scripts` are the texts of the files that it runs, by path."""
    numbers = {float(each) for each in _NUMBER.findall(claim.statement)}
    trees = {path: tree for path, text in scripts.items() if (tree := _parsed(path, text)) is not None}
    if len(trees) == len(scripts):
        negated = {path: text for path, tree in trees.items() if (text := _negated(tree))}
        if negated and len(negated) == len(trees):
            yield Mutant("with every assert negated", claim.check, _encoded(negated))
    if _BOUND.search(claim.statement) or not numbers:
        return
    other = {path: text for path, tree in trees.items() if (text := _with_others(tree, numbers))}
    if other:
        yield Mutant("with other numbers in its asserts", claim.check, _encoded(other))
    if (line := _other_line(claim.check, numbers)) != claim.check:
        yield Mutant(f"as {line[:100]!r}, with another number than the claim's", line)


def _parsed(path: str, text: str) -> ast.Module | None:
    if not path.endswith(".py"):
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode("utf-8", "replace") for path, text in texts.items()}


def _negated(tree: ast.Module) -> str:
    """The script with each assert negated; empty when there is none, or something else is meant to fail."""
    found = list(ast.walk(tree))
    if not any(isinstance(node, ast.Assert) for node in found) or any(map(_fails_otherwise, found)):
        return ""
    return ast.unparse(_Negate().visit(deepcopy(tree)))


def _fails_otherwise(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name in _EXITS or name.startswith(("assert", "check_"))
    return isinstance(node, ast.Raise)


class _Negate(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        return ast.copy_location(ast.fix_missing_locations(ast.Assert(test=test, msg=None)), node)


def _with_others(tree: ast.Module, numbers: set[float]) -> str:
    """The script with other numbers where an assert says that something equals one of the claim's; empty when
    none does."""
    changed = False
    for node in ast.walk(tree):
        for compare in ast.walk(node.test) if isinstance(node, ast.Assert) else ():
            if isinstance(compare, ast.Compare) and all(isinstance(each, ast.Eq) for each in compare.ops):
                for each in (compare.left, *compare.comparators):
                    if isinstance(each, ast.Constant) and _is_one_of(each.value, numbers):
                        each.value = each.value + 1  # pyright: ignore[reportOperatorIssue]
                        changed = True
    return ast.unparse(tree) if changed else ""


def _is_one_of(value: object, numbers: set[float]) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and float(value) in numbers


def _other_line(check: str, numbers: set[float]) -> str:
    """The command line with another number in place of its last word that is one of the claim's."""
    try:
        words = shlex.split(check)
    except ValueError:
        return check
    given = [word for word in words if _NUMBER.fullmatch(word) and float(word) in numbers]
    if not given:
        return check
    found = [*re.finditer(rf"(?<![\w.]){re.escape(given[-1])}(?![\w.])", check)][-1]
    return f"{check[: found.start()]}{float(given[-1]) + 1:g}{check[found.end() :]}"

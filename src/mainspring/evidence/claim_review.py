"""Looks at the check of a claim before its word is taken: a check that cannot fail proves nothing.

Python scripts are read: one that is empty, or in which nothing that can fail depends on anything, is refused.
One that mentions nothing of what it claims is told as a doubt. A check that takes the claim (the variable
`CLAIM` of its environment) is run once more with a wrong statement, which it must not prove. Pure.
"""

from __future__ import annotations

import ast
import re

from mainspring.events import Claim
from mainspring.evidence.claim_file import is_trivial

CLAIM = "CLAIM"
"""The variable in which a check finds the statement of its claim."""

SCRIPTS = (".py", ".sh", ".bash")
_WORD = re.compile(r"[A-Za-zÀ-ÿΑ-ω_]{3,}|\d+(?:\.\d+)?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COMMON_WORDS = """
    the and for all any every each that this with from are has have then there exists such not holds prove
    proved show shown claim goal what which when into its main lemma theorem true false equal equals"""
_COMMON = frozenset(_COMMON_WORDS.split())
_IDLE_CALLS = ("exit", "quit", "_exit", "print")
_OPPOSITES = (
    ("≠", "="),
    ("!=", "=="),
    ("<=", ">"),
    (">=", "<"),
    ("≤", ">"),
    ("≥", "<"),
    ("==", "!="),
    ("=", "≠"),
    ("<", "≥"),
    (">", "≤"),
    (" is not ", " is "),
    (" is ", " is not "),
    (" are ", " are not "),
)


def cannot_fail(name: str, text: str) -> str:
    """Why a script would pass whatever is true; empty when it can fail, as far as that can be read."""
    if not name.endswith(".py"):
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        return "it is empty" if is_trivial("\n".join(lines)) else ""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    body = [node for node in tree.body if not _is_idle(node)]
    if not body:
        return "it is empty"
    if not any(_can_fail(node) for node in ast.walk(tree)):
        return "it is constant: nothing in it can fail"
    return ""


def touches(claim: Claim, text: str) -> bool:
    """Whether a check mentions anything of the statement: a word or a number; True when it has none."""
    wanted = {word.casefold() for word in _WORD.findall(claim.statement)} - _COMMON
    given = {word.casefold() for word in _WORD.findall(text)}
    return not wanted or takes_claim(text) or not wanted.isdisjoint(given) or _has_parts(wanted, given)


def takes_claim(text: str) -> bool:
    """Whether a check reads the statement that it decides."""
    return bool(re.search(rf"\b{CLAIM}\b", text))


def wrong_statement(statement: str) -> str:
    """A statement that is not the claim and should not be proved: another number, or the opposite."""
    numbers = list(_NUMBER.finditer(statement))
    for old, new in _OPPOSITES:
        if old in statement:
            return statement.replace(old, new, 1)
    if numbers:
        last = numbers[-1]
        return f"{statement[: last.start()]}{float(last[0]) + 1:g}{statement[last.end() :]}"
    return f"It is not true that {statement}"


def _has_parts(wanted: set[str], given: set[str]) -> bool:
    """Whether a longer name holds one of the words: `riemann_zeta` of "Riemann"."""
    return any(word in name for name in given for word in wanted if len(word) > 3)


def _is_idle(node: ast.stmt) -> bool:
    """Whether a statement does nothing that could fail: `pass`, a text, an exit with 0."""
    if isinstance(node, ast.Pass | ast.Import | ast.ImportFrom):
        return True
    if not isinstance(node, ast.Expr):
        return False
    call = node.value
    if isinstance(call, ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        return name in _IDLE_CALLS and all(
            isinstance(each, ast.Constant) and (name == "print" or each.value in (0, None, False))
            for each in call.args
        )
    return isinstance(call, ast.Constant)


def _can_fail(node: ast.AST) -> bool:
    """Whether what a piece of a script does may depend on something."""
    match node:
        case ast.Assert(test=test):
            return not _is_constant(test)
        case ast.Raise() | ast.If() | ast.IfExp() | ast.While() | ast.Try() | ast.Match():
            return True
        case ast.Call(func=func, args=args):
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            # Any call of something else may raise; only what prints and exits with a constant may not.
            return name not in _IDLE_CALLS or any(not _is_constant(each) for each in args)
        case _:
            return False


def _is_constant(node: ast.AST) -> bool:
    """Whether an expression has the same value always: it names nothing."""
    return not any(isinstance(each, ast.Name | ast.Call | ast.Attribute) for each in ast.walk(node))

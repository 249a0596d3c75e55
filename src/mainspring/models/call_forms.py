"""Calls that are no JSON object: as tags (`<function=read>`, `<invoke name="read">`, `<read>`), as `Action:`
and `Action Input:`, or as Python (`read(path="a.py")`); and what models write around a reply.

Nothing is made of a part that does not end: its call gets arguments that cannot be read, and the toolbox says
what would be right. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from importlib import import_module

import msgspec

from mainspring.events import tool_of
from mainspring.models.loose_json import read
from mainspring.patterns import lazy_pattern

_FUNCTION = lazy_pattern(r"<function=([\w.-]+)>\s*(.*?)\s*(?:</function>|(?=<function=)|\Z)", re.DOTALL)
_INVOKE = lazy_pattern(r'<invoke\s+name="([\w.-]+)"\s*>\s*(.*?)\s*(?:</invoke>|\Z)', re.DOTALL)
_ELEMENT = lazy_pattern(
    r"^[ \t]*<([a-z]\w*)>\s*(<\w+>.*?)\s*(?:^[ \t]*</\1>|</\1>[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_FIELD = lazy_pattern(
    r'<parameter(?:=|\s+name=")([\w.-]+)"?[^>]*>(.*?)</parameter>|<(\w+)>(.*?)</\3>', re.DOTALL
)
_STEP = lazy_pattern(
    r"^[ \t*]*Action[ \t*]*:[ \t*]*`?([\w.-]+)`?[ \t]*\n+[ \t*]*Action Input[ \t*]*:[ \t*]*(.*)",
    re.DOTALL | re.MULTILINE,
)
_MISTRAL = lazy_pattern(r"\[TOOL_CALLS\]([\w.-]+)(?:\[ARGS\])?(?=\{)")
_DEEPSEEK = lazy_pattern(r"<｜tool▁sep｜>([\w.-]+)\s*(?:```json)?\s*(\{.*)", re.DOTALL)
_PYTHON = lazy_pattern(r"\s*(?:```[\w-]*\n)?\s*\[?([\w.]+\(.*\))\]?\s*(?:```)?\s*", re.DOTALL)
_MARKS = lazy_pattern(
    r"<\|[\w ]+\|>(?:assistant\b)?|<｜[^｜\n]{1,40}｜>|\[TOOL_CALLS\]|</?s>"
    r"|<(?:start|end)_of_turn>(?:model\b)?|\ufeff"
)
_ROLE = lazy_pattern(r"\s*(?:assistant|model|ai|bot)\s*:\s*", re.IGNORECASE)
_THOUGHT = lazy_pattern(r"\s*(?:<think(?:ing)?>)?(.*?)</think(?:ing)?>\s*", re.DOTALL)
_STARTS = lazy_pattern(r"[{\[<`]|Action:|\Z")

Form = tuple[int, int, str, str]
"""Where a call begins and ends in a text, its name and its arguments."""


def without_marks(text: str) -> str:
    """A reply without the signs that separate messages, and without a role before it."""
    cleaned = _MARKS.sub("\n", text).strip()
    role = _ROLE.match(cleaned)
    return cleaned[role.end() :] if role else cleaned


def without_thought(text: str) -> tuple[str, str]:
    """What a model thought aloud, and the rest; only where the rest begins as an action does, or where the
    thought is marked from the first sign on."""
    found = _THOUGHT.match(text)
    if not found:
        return "", text
    is_marked = text.lstrip().startswith("<think")
    if not is_marked and not _STARTS.match(text, found.end()):
        return "", text
    return found[1].strip(), text[found.end() :]


def meant(name: str, known: Collection[str]) -> str:
    """The known tool of a name in other letters, else the name."""
    lowered = tool_of(name).lower()
    return name if tool_of(name) in known or lowered not in known else lowered


def forms_in(text: str, known: Collection[str]) -> list[Form]:
    """The calls of the first of these forms that has any."""
    for look in (_tagged, _elements, _deepseek, _mistral, _steps):
        if found := list(look(text, known)):
            return found
    return []


def python_calls(text: str, known: Collection[str]) -> list[tuple[str, str]]:
    """Calls in the form of Python, where a text is nothing else: known names, and values as they stand."""
    found = _PYTHON.fullmatch(text)
    if not found:
        return []
    try:
        tree = ast.parse(f"[{found[1]}]", mode="eval").body
        calls = tree.elts if isinstance(tree, ast.List) else []
        return [_python_call(call, known) for call in calls]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _python_call(call: ast.expr, known: Collection[str]) -> tuple[str, str]:
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)) or call.args:
        raise ValueError("no call with named arguments")
    if call.func.id not in known:
        raise ValueError(f"no tool {call.func.id!r}")
    given = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
    return call.func.id, import_module("json").dumps(given)


def _tagged(text: str, known: Collection[str]) -> Iterator[Form]:
    """Whoever writes these tags means a call, also of a tool that does not exist."""
    for pattern in (_FUNCTION, _INVOKE):
        for found in pattern.finditer(text):
            yield found.start(), found.end(), meant(found[1], known), _fields(found[2])


def _elements(text: str, known: Collection[str]) -> Iterator[Form]:
    for found in _ELEMENT.finditer(text):
        if found[1] in known:
            yield found.start(), found.end(), found[1], _fields(found[2])


def _deepseek(text: str, known: Collection[str]) -> Iterator[Form]:
    if found := _DEEPSEEK.search(text):
        yield _with_object(text, found, known)


def _mistral(text: str, known: Collection[str]) -> Iterator[Form]:
    for found in _MISTRAL.finditer(text):
        value, rest = _object(text[found.end() :])
        yield found.start(), len(text) - len(rest), meant(found[1], known), value


def _steps(text: str, known: Collection[str]) -> Iterator[Form]:
    found = _STEP.search(text)
    if found and tool_of(found[1]).lower() in known:
        yield _with_object(text, found, known)


def _with_object(text: str, found: re.Match[str], known: Collection[str]) -> Form:
    value, rest = _object(found[2])
    return found.start(), len(text) - len(rest), meant(found[1], known), value


def _object(text: str) -> tuple[str, str]:
    """The JSON object that a text begins with, and the rest; all of it as it stands when there is none."""
    try:
        value, rest = read(text.removeprefix("```json").lstrip(), is_closed=True)
    except ValueError:
        return text.strip(), ""
    return (msgspec.json.encode(value).decode(), rest) if isinstance(value, dict) else (text.strip(), "")


def _fields(body: str) -> str:
    """Arguments in tags, or as JSON; as they stand when anything else is there."""
    if not body:
        return "{}"
    if body.startswith("{"):
        return _object(body)[0]
    given = {found[1] or found[3]: found[2] if found[1] else found[4] for found in _FIELD.finditer(body)}
    if not given or _FIELD.sub("", body).strip():
        return body
    return msgspec.json.encode({name: _value(text) for name, text in given.items()}).decode()


def _value(text: str) -> str:
    """Without the line breaks that set a value off from its tags."""
    return text.removeprefix("\n").removesuffix("\n") if "\n" in text else text

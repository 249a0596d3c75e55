"""Calls that a model wrote as text, for models whose server does not see them as calls.

Known forms: a fenced block of JSON, JSON as the whole message, `<tool_call>` around JSON; a call is an object
with a name and arguments under any of their usual names, and its JSON need not be right in every sign. What
has both is a call even of a tool that does not exist, or with arguments that cannot be read: the toolbox
answers with what would be right, and it is no final answer. Other JSON is what the model wanted to say.
`rescue` is pure; `rescued` applies it to a stream.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any, cast

import msgspec

from mainspring.events import CallDelta, TextDelta, tool_of
from mainspring.models import ReplyFinished, Retrying, StreamItem
from mainspring.models.loose_json import read
from mainspring.patterns import lazy_pattern

_TAGGED = lazy_pattern(r"<(tool_call|function_call|tools)>\s*(.*?)\s*(?:</\1>|\Z)", re.DOTALL)
_FENCED = lazy_pattern(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_BARE = lazy_pattern(r"^[ \t]*[\[{].*\Z", re.DOTALL | re.MULTILINE)
_BEGINNING = lazy_pattern(r"<(?:tool_call|function_call|tools)>|^[ \t]*(?:```|[\[{])", re.MULTILINE)
_PARTIAL = lazy_pattern(r"<[a-z_]{0,14}\Z|^[ \t]*`{1,2}\Z", re.MULTILINE)
_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input")
_LISTS = ("tool_calls", "calls")
_TOOL_NAME = lazy_pattern(r"[A-Za-z_][\w.-]{0,63}")
_BEGUN = lazy_pattern(
    rf"""\s*[\[{{\s]*"(?:{"|".join(_NAMES)})"\s*:\s*"([\w.-]+)"\s*,\s*"(?:{"|".join(_ARGUMENTS)})"\s*:\s*"""
)


class RescuedCall(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class Rescued(msgspec.Struct, frozen=True):
    """What is left of the text, and the calls that stood in it, in order."""

    text: str
    calls: tuple[RescuedCall, ...] = ()


def rescue(text: str, known: Collection[str], *, is_tagged_only: bool = False) -> Rescued:
    """The calls of known tools in a message. With `is_tagged_only` plain JSON is none: it is the answer that
    the request asked for."""
    for pattern in (_TAGGED,) if is_tagged_only else (_TAGGED, _FENCED, _BARE):
        calls: list[RescuedCall] = []
        rest: list[str] = []
        position = 0
        for found in pattern.finditer(text):
            made = _calls(found[found.lastindex or 0], known)
            if made:
                rest.append(text[position : found.start()])
                position = found.end()
                calls.extend(made)
        if calls:
            rest.append(text[position:])
            return Rescued("".join(rest).strip(), tuple(calls))
    return Rescued(text)


async def rescued(
    items: AsyncGenerator[StreamItem], known: Collection[str], *, is_tagged_only: bool = False
) -> AsyncGenerator[StreamItem]:
    """A stream in which calls written as text are calls. What may become one is held back until the end."""
    last, held, has_calls = "", "", False
    async with aclosing(items):
        async for item in items:
            match item:
                case TextDelta():
                    held += item.text
                    start = _start(last + held)
                    free = held if start is None else held[: max(start - len(last), 0)]
                    held = held[len(free) :]
                    last = (last + free)[-1:]
                    if free:
                        yield TextDelta(text=free)
                case Retrying():
                    last, held, has_calls = "", "", False
                    yield item
                case ReplyFinished():
                    is_plain = has_calls or not held
                    saved = Rescued(held) if is_plain else rescue(held, known, is_tagged_only=is_tagged_only)
                    for final in _ended(saved, item):
                        yield final
                case CallDelta():
                    has_calls = True
                    yield item
                case _:
                    yield item


def _start(text: str) -> int | None:
    found = _BEGINNING.search(text) or _PARTIAL.search(text)
    return found.start() if found else None


def _ended(saved: Rescued, finished: ReplyFinished) -> list[StreamItem]:
    items: list[StreamItem] = [TextDelta(text=saved.text)] if saved.text else []
    for index, call in enumerate(saved.calls):
        items.append(CallDelta(index=index, name=call.name, arguments=call.arguments))
    if saved.calls and finished.stop == "end":
        finished = msgspec.structs.replace(finished, stop="calls")
    return [*items, finished]


def _calls(text: str, known: Collection[str]) -> list[RescuedCall]:
    """The calls in a text that is one JSON value, or one on each line; none when any of it is not a call."""
    try:
        values = _values(text)
    except ValueError:
        begun = _BEGUN.match(text)
        is_known = begun is not None and tool_of(begun[1]) in known
        return [RescuedCall(begun[1], text[begun.end() :].rstrip())] if begun and is_known else []
    calls: list[RescuedCall] = []
    for value in values:
        made = _from_value(value, known)
        if not made:
            return []
        calls.extend(made)
    return calls


def _values(text: str) -> list[Any]:
    """Raises `ValueError` for what cannot be read."""
    for pieces in ([text], text.splitlines()):
        try:
            return [msgspec.json.decode(piece) for piece in pieces if piece.strip()]
        except msgspec.MsgspecError:
            continue
    value, rest = read(text)
    # What a model writes on the lines behind its call is mostly what it thinks the answer will be.
    return [value] if not rest.partition("\n")[0].strip() else []


def _from_value(value: Any, known: Collection[str]) -> list[RescuedCall]:
    if isinstance(value, list):
        made = [_from_value(item, known) for item in cast("list[Any]", value)]
        return [call for calls in made for call in calls] if all(made) else []
    if not isinstance(value, dict):
        return []
    fields = cast("dict[str, Any]", value)
    for name in _LISTS:
        if isinstance(fields.get(name), list):
            return _from_value(fields[name], known)
    inner = fields.get("function")
    if isinstance(inner, dict):
        return _from_value(inner, known)
    name: str = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), "")
    arguments: Any = next((fields[key] for key in _ARGUMENTS if key in fields), None)
    if tool_of(name) not in known and not (_TOOL_NAME.fullmatch(name) and isinstance(arguments, dict)):
        return []
    if arguments is None:
        arguments = dict[str, Any]()
    if isinstance(arguments, str):
        return [RescuedCall(name, arguments)]
    return [RescuedCall(name, msgspec.json.encode(arguments).decode())] if isinstance(arguments, dict) else []

"""Calls that a model wrote as text, for models whose server does not see them as calls.

Known forms: a fenced block of JSON, JSON as the whole message, `<tool_call>` around JSON, and those of
`call_forms.py`; a call is an object with a name and arguments under any of their usual names, and its JSON
need not be right in every sign. What has both is a call even of a tool that does not exist, or with arguments
that cannot be read: the toolbox answers with what would be right, and it is no final answer. Other JSON is
what the model wanted to say, unless it was told to write its calls as JSON (`is_told`). `rescue` is pure;
`rescued` applies it to a stream.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any, cast

import msgspec

from mainspring.events import CallDelta, TextDelta, tool_of
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.models import ReplyFinished, Retrying, StreamItem
from mainspring.models.call_forms import forms_in, meant, python_calls, without_marks, without_thought
from mainspring.models.loose_json import read
from mainspring.patterns import lazy_pattern

_TAGGED = lazy_pattern(r"<(tool_call|function_call|tools)>\s*(.*?)\s*(?:</\1>|\Z)", re.DOTALL)
_FENCED = lazy_pattern(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_BARE = lazy_pattern(r"^[ \t]*[\[{].*\Z", re.DOTALL | re.MULTILINE)
_INLINE = lazy_pattern(
    r"""\{+\s*["'“]?(?:thought|action|tool|tool_name|name|function|tool_calls)["'”]?\s*:.*\Z""", re.DOTALL
)
_BEGINNING = lazy_pattern(
    r"<(?:tool_call|function_call|tools)>|<function=|<invoke\s|<\|(?:python_tag|im_start|tool)|<｜tool"
    r"|\[TOOL_CALLS\]|^[ \t]*(?:```|[\[{])",
    re.MULTILINE,
)
_PARTIAL = lazy_pattern(
    r"<(?:[a-z_]{0,14}|\|[a-z_]{0,9}|｜\w{0,3})\Z|\[[A-Z_]{0,10}\Z|^[ \t]*`{1,2}\Z", re.MULTILINE
)
_CLOSER = lazy_pattern(r"\s*(?:</(?:tool_call|function_call|tools)>|```)")
_WRAPPERS = lazy_pattern(r"</?(?:tool_call|function_call|function_calls|tools)>")
_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input")
_LISTS = ("tool_calls", "calls")
_TOLD_NAMES = ("action", "tool", "tool_name")
_BESIDE = ("id", "type", "thought", "description")
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


def rescue(
    text: str, known: Collection[str], *, is_tagged_only: bool = False, is_told: bool = False
) -> Rescued:
    """The calls of known tools in a message. With `is_tagged_only` plain JSON is none: it is the answer that
    the request asked for."""
    thought, said = without_thought(text)
    if thought and not is_tagged_only:
        found = rescue(said, known, is_told=is_told)
        return Rescued(f"{thought}\n{found.text}".strip(), found.calls) if found.calls else Rescued(text)
    cleaned = text if is_tagged_only else without_marks(text)
    for written in dict.fromkeys((text, cleaned)):
        for pattern in (_TAGGED,) if is_tagged_only else (_TAGGED, _FENCED, _BARE):
            if found := _by_pattern(pattern, written, known, is_told=is_told):
                return found
        if not is_tagged_only and (found := _by_forms(written, known)):
            return found
    return (_in_a_sentence(cleaned, known) if is_told else None) or Rescued(text)


def _by_forms(text: str, known: Collection[str]) -> Rescued | None:
    forms = forms_in(text, known)
    if not forms:
        return None
    rest = _WRAPPERS.sub("", text[: forms[0][0]] + text[forms[-1][1] :])
    calls = tuple(RescuedCall(name, arguments) for _, _, name, arguments in forms)
    return Rescued(rest.strip(), calls)


def _in_a_sentence(text: str, known: Collection[str]) -> Rescued | None:
    if made := python_calls(text, known):
        return Rescued("", tuple(RescuedCall(*each) for each in made))
    return _by_pattern(_INLINE, text, known, is_told=True)


def _by_pattern(
    pattern: re.Pattern[str], text: str, known: Collection[str], *, is_told: bool
) -> Rescued | None:
    calls: list[RescuedCall] = []
    rest: list[str] = []
    position = 0
    for found in pattern.finditer(text):
        if found.start() < position:
            continue  # it stands inside of the call before it
        made, end = _calls(text, found, known, is_told=is_told)
        if made:
            rest.append(text[position : found.start()])
            position = end
            calls.extend(made)
    return Rescued("".join([*rest, text[position:]]).strip(), tuple(calls)) if calls else None


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


def _calls(
    text: str, found: re.Match[str], known: Collection[str], *, is_told: bool
) -> tuple[list[RescuedCall], int]:
    """The calls in a part of a text that is one JSON value, or one on each line, and where they end; none
    when any of it is not a call."""
    group = found.lastindex or 0
    part, end = found[group], found.end()
    try:
        values = _values(part)
    except ValueError:
        values, end = _whole(text, found.start(group), end)
    if values is None:
        begun = _BEGUN.match(part)
        is_known = begun is not None and tool_of(begun[1]) in known
        unread = [RescuedCall(begun[1], part[begun.end() :].rstrip())] if begun and is_known else []
        return unread, found.end()
    calls: list[RescuedCall] = []
    for value in values:
        made = _from_value(value, known, is_told=is_told)
        if not made:
            return [], end
        calls.extend(made)
    return calls, end


def _whole(text: str, start: int, end: int) -> tuple[list[Any] | None, int]:
    """The value that begins at a place, and where it ends: what closes a block may stand in a string."""
    try:
        value, rest = read(text[start:], is_closed=True)
    except ValueError:
        return None, end
    closed = _CLOSER.match(rest)
    return [value], max(end, len(text) - len(rest) + (closed.end() if closed else 0))


def _values(text: str) -> list[Any]:
    """Raises `ValueError` for what cannot be read."""
    for pieces in ([text], text.splitlines()):
        try:
            return [msgspec.json.decode(piece) for piece in pieces if piece.strip()]
        except DECODE_ERRORS:
            continue
    value, rest = read(text)
    # What a model writes on the lines behind its call is mostly what it thinks the answer will be.
    return [value] if not without_marks(rest.partition("\n")[0]) else []


def _from_value(value: Any, known: Collection[str], *, is_told: bool) -> list[RescuedCall]:
    if isinstance(value, list):
        made = [_from_value(item, known, is_told=is_told) for item in cast("list[Any]", value)]
        return [call for calls in made for call in calls] if all(made) else []
    if not isinstance(value, dict):
        return []
    fields = cast("dict[str, Any]", value)
    for name in _LISTS:
        if isinstance(fields.get(name), list):
            return _from_value(fields[name], known, is_told=is_told)
    inner = fields.get("function")
    if isinstance(inner, dict):
        return _from_value(inner, known, is_told=is_told)
    if is_told:
        fields = _with_usual_names(fields, known)
    key = next((key for key in _NAMES if isinstance(fields.get(key), str)), "")
    name: str = meant(fields.get(key, ""), known)
    arguments: Any = next((fields[each] for each in _ARGUMENTS if each in fields), None)
    is_marked = isinstance(arguments, dict) or (is_told and key in _TOLD_NAMES)
    if tool_of(name) not in known and not (_TOOL_NAME.fullmatch(name) and is_marked):
        return []
    if arguments is None:
        arguments = {each: field for each, field in fields.items() if each != key and each not in _BESIDE}
    if isinstance(arguments, str):
        return [RescuedCall(name, arguments)]
    return [RescuedCall(name, msgspec.json.encode(arguments).decode())] if isinstance(arguments, dict) else []


def _with_usual_names(fields: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """An action whose names are written in other letters, or that is named by its only field."""
    lowered = {name.lower(): field for name, field in fields.items()}
    fields = lowered if not any(name in fields for name in _NAMES) else fields
    if len(fields) == 1:
        ((name, arguments),) = fields.items()
        if name in known and isinstance(arguments, dict):
            return {"name": name, "arguments": arguments}
    return fields

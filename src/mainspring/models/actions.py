"""Calls for models that make them badly or not at all: each reply is one JSON object that fits a schema.

The server lets the model write nothing else, so that a call always parses: `{"action": "read", "arguments":
{…}}`, or `{"action": "answer", "text": "…"}`, either with a short `thought` before it. Its history is told in
the same form, but for whole files, which stand in fenced blocks (`drafts.py`). Where the server cannot hold
it to that, what it writes is read leniently, and the first action counts. Pure, but for `Actions`, which
reads one reply as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

import msgspec

from mainspring.events import CallAsked, CallDelta, Text, TextDelta, Thinking, ThinkingDelta, ToolSpec
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.models import AssistantMessage, Message, ResultsMessage, UserMessage, drafts, structured
from mainspring.models.call_forms import meant, without_thought
from mainspring.models.loose_json import loads, read, unescaped
from mainspring.models.rescue import rescue
from mainspring.models.wires.messages import ENCODER, attached_text, is_object, object_text, without_nul
from mainspring.patterns import lazy_pattern

ANSWER = "answer"
WIRE = "actions"
"""What marks a thought as one of this form."""
FINISH = "finish"
"""The tool that ends work; here the answer does."""
MAX_RESULT_CHARACTERS = 6000
_MAX_THOUGHT_CHARACTERS = 200
_HEAD = r'\s*\{\s*(?:"thought"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*)?"action"\s*:\s*'
_ANSWERING = lazy_pattern(_HEAD + r'"answer"\s*,\s*"text"\s*:\s*"', re.DOTALL)
_CALLING = lazy_pattern(_HEAD + r'"([^"]*)"\s*,\s*"arguments"\s*:\s*', re.DOTALL)
_ANSWER_NAMES = ("text", "answer", "content", "message", "response", "summary")
_QUOTED = lazy_pattern(r'((?:[^"\\]|\\.)*")', re.DOTALL)
_GOES_ON = lazy_pattern(r"\s*[^\s},\]]")
_ENDED = lazy_pattern(r'(?<!\\)(?:\\\\)*"\s*(?:\}[ \t]*(?:\Z|[\n{`<}\[])|,\s*"\w+"\s*:)')
_FENCED = lazy_pattern(r"\s*```\w*\n(.*?)(?:\n?```)?\s*", re.DOTALL)
_UNFINISHED_ESCAPE = lazy_pattern(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)$")
_HALF_PAIR = lazy_pattern(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?$")

# What llama.cpp can make a grammar of; what says more is checked when the call is made.
_KEPT = frozenset({"type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf"})


def described(system: str, tools: Sequence[ToolSpec], *, must_call: bool = False) -> str:
    """The system prompt, with the tools and the form of a reply, which is a call alone if it `must_call`."""
    answer = f'To say something to the user, which also ends your work: {{"action": "{ANSWER}", "text": "…"}}'
    lines = [
        "Reply with one JSON object and nothing else, unless you are asked for files. To use a tool:",
        '{"action": "NAME", "arguments": {…}}',
        *(() if must_call else (answer,)),
        'A short "thought" may stand before "action". After each tool you are told its result. The tools:',
    ]
    lines.extend(f"\n{tool.name}: {tool.description}\n{_signature(tool)}" for tool in _offered(tools))
    return f"{system}\n\n" + "\n".join(lines)


def schema(tools: Sequence[ToolSpec], *, must_call: bool = False) -> dict[str, Any]:
    """What a reply must fit."""
    answer = _action({"action": {"const": ANSWER}, "text": {"type": "string"}})
    calls = [
        _action({"action": {"const": tool.name}, "arguments": _plain(_needed(tool))})
        for tool in _offered(tools)
    ]
    return {"anyOf": calls if must_call else [*calls, answer]}


def encode(message: Message) -> bytes:
    match message:
        case UserMessage():
            shown = [attached_text(attachment) for attachment in message.attachments]
            return _said("user", "\n\n".join((*shown, message.text)))
        case AssistantMessage():
            return _said("assistant", "\n".join(_actions(message)))
        case ResultsMessage():
            return _said("user", "\n\n".join(_results(message)))


class _Written(msgspec.Struct, frozen=True):
    path: str
    content: str


class Actions:
    """One reply: gives the text of an answer as it comes, and a call when it is whole. Where the reply is in
    another form, calls of `known` tools are looked for in it."""

    def __init__(self, known: Collection[str] = ()) -> None:
        self._known = known
        self._written = ""
        self._shown = 0
        self._is_answer: bool | None = None
        self.dropped = 0

    def feed(self, text: str) -> list[TextDelta | ThinkingDelta]:
        self._written += text
        deltas: list[TextDelta | ThinkingDelta] = []
        if self._is_answer is None:
            answering = _ANSWERING.match(self._written)
            if found := answering or _CALLING.match(self._written):
                self._is_answer, self._shown = found is answering, found.end()
                deltas += _thought(found[1])
        new = self._answered() if self._is_answer else ""
        return [*deltas, TextDelta(text=new)] if new else deltas

    def end(self) -> list[TextDelta | ThinkingDelta | CallDelta]:
        """What is left: a call, or text that is no action, as it stands."""
        if self._is_answer:
            return self._last_of_answer()
        called = _CALLING.match(self._written)
        if called is None:
            return self._loosely()
        if called[2] == ANSWER and ANSWER not in self._known:
            return self._loosely()
        first, rest = _first_object(self._written[called.end() :].rstrip())
        self.dropped = len(_CALLING.findall(rest)) or len(rescue(rest, self._known, is_told=True).calls)
        return [CallDelta(index=0, name=meant(called[2], self._known), arguments=first)]

    def _last_of_answer(self) -> list[TextDelta | ThinkingDelta | CallDelta]:
        rest = self._written[self._shown :]
        end = _ENDED.search(rest)
        text = _unescaped(rest[: end.start()] if end else rest.removesuffix('"'))
        return [TextDelta(text=text)] if text else []

    def _loosely(self) -> list[TextDelta | ThinkingDelta | CallDelta]:
        """A reply that nothing held to its form: the first action in it, or its text."""
        thought, written = without_thought(self._written)
        before: list[TextDelta | ThinkingDelta | CallDelta] = [ThinkingDelta(text=thought)] if thought else []
        if isinstance(text := _read(written).get("text"), str):
            self._is_answer = True
            return [*before, TextDelta(text=text)]
        found = rescue(written, self._known, is_told=True)
        first, self.dropped = next(iter(found.calls), None), max(len(found.calls) - 1, 0)
        is_answer = first is None or (first.name == ANSWER and ANSWER not in self._known)
        self._is_answer = is_answer
        if first is None or is_answer:
            said = written if first is None else _answer_in(first.arguments) or written
            return [*before, TextDelta(text=said)] if said else before
        return [*before, CallDelta(index=0, name=first.name, arguments=first.arguments)]

    @property
    def has_call(self) -> bool:
        return self._is_answer is False

    def _answered(self) -> str:
        """The part of the text that came since and can be read on its own. A quote that may end it is held
        back: where text goes on behind it, it is a part of it."""
        rest = self._written[self._shown :]
        end = _closing_quote(rest)
        if end is not None:
            rest = rest[:end]
        else:
            for unfinished in (_UNFINISHED_ESCAPE, _HALF_PAIR):
                if found := unfinished.search(rest):
                    rest = rest[: found.start(1) if unfinished is _UNFINISHED_ESCAPE else found.start()]
        self._shown += len(rest)
        return _unescaped(rest)


def _thought(written: str | None) -> list[TextDelta | ThinkingDelta]:
    return [ThinkingDelta(text=_unescaped(written), wire=WIRE)] if written else []


def _read(written: str) -> dict[str, Any]:
    """An answer whose fields stand in another order, whose JSON is not right in every sign, or in a fence."""
    fenced = _FENCED.fullmatch(written)
    try:
        value = loads(fenced[1] if fenced else written)
    except ValueError:
        return {}
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return fields if fields.get("action") == ANSWER else {}


def _answer_in(arguments: str) -> str:
    """The text of an answer that was written as a call."""
    try:
        value = loads(arguments)
    except ValueError:
        return ""
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return next((fields[name] for name in _ANSWER_NAMES if isinstance(fields.get(name), str)), "")


def _first_object(written: str) -> tuple[str, str]:
    """The arguments, and what a model wrote behind its action; as they stand when they are no object."""
    arguments = written.removesuffix("}").rstrip()
    if is_object(arguments):
        return arguments, ""
    try:
        value, rest = read(written, is_closed=True)
    except ValueError:
        return arguments, ""
    return (_text(value), rest) if isinstance(value, dict) else (arguments, "")


def _closing_quote(text: str) -> int | None:
    """Where a text may end: at the first quote behind which nothing says that it goes on."""
    return next(
        (found.end(1) - 1 for found in _QUOTED.finditer(text) if not _GOES_ON.match(text, found.end())), None
    )


def _unescaped(text: str) -> str:
    try:
        return unescaped(text)
    except DECODE_ERRORS:
        return text


def _said(role: str, content: str) -> bytes:
    return without_nul(ENCODER.encode({"role": role, "content": content}))


def _actions(message: AssistantMessage) -> Iterator[str]:
    calls = [part for part in message.parts if isinstance(part, CallAsked)]
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    thought = "".join(part.text for part in message.parts if isinstance(part, Thinking) and part.wire == WIRE)
    if calls and all(call.name == drafts.WRITE for call in calls) and (files := _files(calls)):
        yield from files
        return
    head = f'"thought": {_text(thought)}, ' if thought else ""
    if text and not calls:
        yield f'{{{head}"action": "{ANSWER}", "text": {_text(text)}}}'
    for call in calls:
        name = _text(call.name)
        yield f'{{{head}"action": {name}, "arguments": {object_text(call.arguments)}}}'


def _files(calls: Sequence[CallAsked]) -> list[str]:
    """What was written, as it is shown and wanted; nothing when a call cannot be read so."""
    try:
        written = [msgspec.json.decode(call.arguments, type=_Written) for call in calls]
    except DECODE_ERRORS:
        return []
    return [drafts.block(each.path, each.content.rstrip("\n")) for each in written]


def _results(message: ResultsMessage) -> Iterator[str]:
    for result in message.results:
        outcome = "failed" if result.is_error else "gave"
        text = result.text
        if len(text) > MAX_RESULT_CHARACTERS:
            half = MAX_RESULT_CHARACTERS // 2
            text = f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
        yield f"[{result.name} {outcome}]\n{text}"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _action(properties: dict[str, Any]) -> dict[str, Any]:
    thought = {"type": "string", "maxLength": _MAX_THOUGHT_CHARACTERS}
    return {
        "type": "object",
        "properties": {"thought": thought, **properties},
        "required": list(properties),
        "additionalProperties": False,
    }


def _offered(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return [tool for tool in tools if tool.name != FINISH]


def _plain(parameters: Any) -> Any:
    """A schema with only what a grammar can be made of; anything else is open."""
    if isinstance(parameters, list):
        return [_plain(item) for item in cast("list[Any]", parameters)]
    if not isinstance(parameters, dict):
        return parameters
    fields = cast("dict[str, Any]", parameters)
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "properties":
            kept[name] = {key: _plain(inner) for key, inner in value.items()}
        elif name in _KEPT:
            kept[name] = value if name in ("enum", "const", "required") else _plain(value)
    if "properties" in kept:
        kept["additionalProperties"] = False
    return kept


def _needed(tool: ToolSpec) -> dict[str, Any]:
    """The parameters without those that may be left out: a small model fills in whatever it is offered. A
    tool that requires nothing, or may do without one alone, keeps what it has, and so does a structured
    answer. Fields stand in the order in which they are required, which a grammar holds a model to: a path
    comes before what is written there. Journals sort their names."""
    parameters = tool.parameters
    required = cast("list[str]", parameters.get("required", []))
    fields = cast("dict[str, Any]", parameters.get("properties", {}))
    ordered = {name: fields[name] for name in required if name in fields}
    if not required or len(fields) == len(required) + 1 == 2 or tool.name == structured.ANSWER:
        ordered |= fields
    return {**parameters, "properties": ordered} if fields else parameters


def _signature(tool: ToolSpec) -> str:
    """Arguments on one line; those of a structured answer are told whole."""
    parameters = _needed(tool)
    if tool.name == structured.ANSWER:
        return f"arguments that fit this JSON schema: {_text(parameters)}"
    fields: list[str] = []
    for name, field in cast("dict[str, dict[str, Any]]", parameters.get("properties", {})).items():
        about = f" ({field['description']})" if field.get("description") else ""
        fields.append(f'"{name}": {field.get("type", "any")}{about}')
    return "arguments: {" + "; ".join(fields) + "}"

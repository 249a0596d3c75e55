"""How a model on a server of one's own is told of tools, and how its calls are read.

`native`: the server's own calls, and those that the model wrote as text. `schema`: every reply is held to one
action (`actions.py`), and generation ends with it; a server that refuses the schema gets the same words
without it. `text`: those words alone. A message that asks for whole files (`drafts.py`) may be answered with
them in each of these. A model that makes its native calls badly is moved to `schema`, and `note` keeps that
for the next time.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from importlib import import_module
from typing import Any

import msgspec

from mainspring.events import CallDelta, TextDelta
from mainspring.models import (
    Message,
    Model,
    ReplyFinished,
    Request,
    Retrying,
    StreamItem,
    drafts,
    thoughts,
)
from mainspring.models.output import thinking_cap
from mainspring.models.own import ToolForm
from mainspring.models.rescue import rescued
from mainspring.models.structured import answered, with_answer_tool
from mainspring.models.wires.messages import is_object
from mainspring.models.wrapper import ModelWrapper
from mainspring.patterns import lazy_pattern

BAD_CALLS = "native calls"
"""Noted of a model whose native calls could not be relied on."""
MAX_ACTION_TOKENS = 2048
"""Tokens of a reply that is one action, thinking included."""
_MAX_BAD_REPLIES = 2
# A model that plays the other side as well: it writes what its call would give.
_ECHO = lazy_pattern(r"^(?:\[\w+ (?:gave|failed)\]$|<tool_response>|Observation:)", re.MULTILINE)


class ToolProtocol(ModelWrapper):
    def __init__(
        self, model: Model, form: ToolForm = "native", *, note: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(model)
        self.form: ToolForm = form
        self.thinking_tokens: int | None = None
        self._note = note
        self._bad_replies = 0

    @property
    def encode(self) -> Callable[[Message], bytes]:
        return self._model.encode if self.form == "native" else _actions().encode

    def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        if request.short is not None and self.form != "native":
            request = request.short
        if self.thinking_tokens is not None:
            most = thinking_cap(request.effort, self.thinking_tokens)
            request = msgspec.structs.replace(request, thinking_tokens=most)
        known = frozenset(tool.name for tool in request.tools)
        if self.form == "native" or not request.tools:
            items = self._watched(thoughts.divided(self._model.stream(request)), known)
            return rescued(_drafted(items, request), known, is_tagged_only=request.schema is not None)
        if request.schema is not None:
            request = with_answer_tool(request)
            return answered(_acted(thoughts.divided(self._model.stream(self._constrained(request))), known))
        items = thoughts.divided(self._model.stream(self._constrained(request)))
        return _acted(_drafted(items, request), known)

    def _constrained(self, request: Request) -> Request:
        """The request for a model that is not told of calls. One that is asked for files is not told of tools
        either: a small model mixes up what it is told."""
        allowed, is_draft = request.max_output_tokens, _is_draft(request)
        is_held = self.form == "schema" and not is_draft
        described = _actions().described(request.system, request.tools, must_call=request.must_call)
        return msgspec.structs.replace(
            request,
            system=request.system if is_draft else described,
            tools=(),
            must_call=False,
            schema=_actions().schema(request.tools, must_call=request.must_call) if is_held else None,
            is_schema_told=True,
            max_output_tokens=MAX_ACTION_TOKENS if allowed is None else min(allowed, MAX_ACTION_TOKENS),
        )

    async def _watched(
        self, items: AsyncGenerator[StreamItem], known: Collection[str]
    ) -> AsyncGenerator[StreamItem]:
        """The same stream; what it says of how the model makes calls is counted."""
        text, calls = "", dict[int, str]()
        async with aclosing(items):
            async for item in items:
                match item:
                    case TextDelta():
                        text += item.text
                    case CallDelta():
                        calls[item.index] = calls.get(item.index, "") + item.arguments
                    case Retrying():
                        text, calls = "", {}
                    case ReplyFinished() if known and item.stop != "length":
                        self._judge(text, calls.values(), known)
                    case _:
                        pass
                yield item

    def _judge(self, text: str, calls: Collection[str], known: Collection[str]) -> None:
        is_written = not calls and bool(_actions().rescue(text, known).calls)
        is_echo = bool(_ECHO.search(text))
        is_malformed = any(arguments.strip() and not is_object(arguments) for arguments in calls)
        self._bad_replies += is_written or is_malformed or is_echo
        if self._bad_replies >= _MAX_BAD_REPLIES and self._note is not None:
            self.form = "schema"
            self._note(BAD_CALLS)


def _actions() -> Any:
    return import_module("mainspring.models.actions")  # a model that takes tools hardly needs it


def _is_draft(request: Request) -> bool:
    can_write = any(tool.name == drafts.WRITE for tool in request.tools)
    return can_write and request.schema is None and drafts.is_asked(request.messages)


def _drafted(items: AsyncGenerator[StreamItem], request: Request) -> AsyncGenerator[StreamItem]:
    if not _is_draft(request):
        return items
    messages, kept = request.messages, request.kept_files
    is_program, example = drafts.is_program_asked(messages), drafts.example_of(messages)
    return drafts.blocks(items, kept, example=example, is_program=is_program)


async def _acted(items: AsyncGenerator[StreamItem], known: Collection[str]) -> AsyncGenerator[StreamItem]:
    reading = _actions().Actions(known)
    async with aclosing(items):
        async for item in items:
            match item:
                case TextDelta():
                    for delta in reading.feed(item.text):
                        yield delta
                case Retrying():
                    reading = _actions().Actions(known)
                    yield item
                case ReplyFinished():
                    for delta in reading.end():
                        yield delta
                    is_call = reading.has_call and item.stop == "end"
                    stop = "calls" if is_call else item.stop
                    yield msgspec.structs.replace(item, stop=stop, dropped=reading.dropped)
                case _:
                    yield item

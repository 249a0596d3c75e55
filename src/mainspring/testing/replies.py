"""Replies for a scripted model, written shortly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mainspring.errors import ModelError
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply


def scripted_model(
    *replies: str | ScriptedReply, on_request: Callable[[Request], ModelError | None] | None = None
) -> ScriptedModel:
    """A model that says these replies, one for each request, and costs nothing. `on_request` sees each
    request first, and may give the error that it should end with."""
    return ScriptedModel(Script(replies=scripted(replies)), on_request=on_request)


def scripted(replies: Iterable[str | ScriptedReply]) -> tuple[ScriptedReply, ...]:
    return tuple(ScriptedReply(text=each) if isinstance(each, str) else each for each in replies)


def tool_call(name: str, **arguments: Any) -> ScriptedReply:
    """A reply that asks for one call."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))

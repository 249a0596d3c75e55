"""What real providers refuse with 400, in their words, so that a test fails where a user would.

Names of tools, and on Anthropic where thinking stands and how much of the output it may take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mainspring.testing.dialects import Dialect
from mainspring.testing.dialects.anthropic import Anthropic
from mainspring.testing.dialects.chat import Chat
from mainspring.testing.dialects.gemini import Gemini

_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"
_NAME = re.compile(_PATTERN.removesuffix("$"))
_GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


def problem(dialect: Dialect, body: bytes) -> str:
    """Why the provider of this wire would not take a request; empty when it would."""
    request = msgspec.json.decode(body)
    if isinstance(dialect, Anthropic):
        return next(_anthropic(request), "")
    if isinstance(dialect, Gemini):
        return next(_gemini(request), "")
    return next(_chat(request) if isinstance(dialect, Chat) else _responses(request), "")


def _chat(request: dict[str, Any]) -> Iterator[str]:
    named = [
        (f"tools[{n}].function.name", tool["function"]) for n, tool in enumerate(request.get("tools", ()))
    ]
    for place, message in enumerate(request["messages"]):
        for n, call in enumerate(message.get("tool_calls") or ()):
            named.append((f"messages[{place}].tool_calls[{n}].function.name", call["function"]))
    return _openai_names(named)


def _responses(request: dict[str, Any]) -> Iterator[str]:
    named = [(f"tools[{n}].name", tool) for n, tool in enumerate(request.get("tools", ()))]
    calls = [(f"input[{n}].name", item) for n, item in enumerate(request["input"])]
    return _openai_names([*named, *(call for call in calls if call[1].get("type") == "function_call")])


def _openai_names(named: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    for where, holder in named:
        if not _NAME.fullmatch(holder["name"]):
            yield f"Invalid '{where}': string does not match pattern. Expected '{_PATTERN}'."


def _anthropic(request: dict[str, Any]) -> Iterator[str]:
    for n, tool in enumerate(request.get("tools", ())):
        if not _NAME.fullmatch(tool["name"]):
            yield f"tools.{n}.custom.name: String should match pattern '{_PATTERN}'"
    for place, message in enumerate(request["messages"]):
        blocks = _blocks(message)
        for n, block in enumerate(blocks):
            if block["type"] == "tool_use" and not _NAME.fullmatch(block["name"]):
                where = f"messages.{place}.content.{n}.tool_use.name"
                yield f"{where}: String should match pattern '{_PATTERN}'"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [] if isinstance(content, str) else content


def _gemini(request: dict[str, Any]) -> Iterator[str]:
    declared = [each for tool in request.get("tools", ()) for each in tool.get("functionDeclarations", ())]
    parts = [part for content in request["contents"] for part in content["parts"]]
    named = [part[kind] for part in parts for kind in ("functionCall", "functionResponse") if kind in part]
    for holder in (*declared, *named):
        if not _GEMINI_NAME.fullmatch(holder["name"]):
            yield (
                f"Invalid function name: {holder['name']!r}. Must start with a letter or an underscore and"
                " hold a-z, A-Z, 0-9, underscores, dots, colons or dashes, with a maximum length of 64."
            )

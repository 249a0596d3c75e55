"""What real providers refuse with 400, in their words, so that a test fails where a user would.

Names of tools; on Anthropic also images, where thinking stands, and how much of the output it may take.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import msgspec

from mainspring.testing.dialects import Dialect
from mainspring.testing.dialects.anthropic import Anthropic
from mainspring.testing.dialects.chat import Chat
from mainspring.testing.dialects.gemini import Gemini

_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"
_NAME = re.compile(_PATTERN.removesuffix("$"))
_MOST_IMAGE = 5 * 1024 * 1024
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

            if block["type"] == "image" and not _is_whole(block["source"]["data"]):
                yield "Could not process image"
            if block["type"] == "image" and (size := len(block["source"]["data"])) > _MOST_IMAGE:
                where = f"messages.{place}.content.{n}.image.source.base64"
                yield f"{where}: image exceeds 5 MB maximum: {size} bytes > {_MOST_IMAGE} bytes"
    yield from _thinking(request)


_SEE = (
    "Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
)
_THOUGHTS = ("thinking", "redacted_thinking")


def _thinking(request: dict[str, Any]) -> Iterator[str]:
    asked = request.get("thinking", {"type": "disabled"})
    budget = asked.get("budget_tokens", 0)
    if asked["type"] == "enabled" and budget < 1024:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    if budget >= request["max_tokens"]:
        yield f"`max_tokens` must be greater than `thinking.budget_tokens`. {_SEE}"
    if asked["type"] != "disabled" and request.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    loop = _open_loop(request["messages"])
    if loop and asked["type"] == "enabled" and (kind := _blocks(loop[0][1])[0]["type"]) not in _THOUGHTS:
        yield (
            f"messages.{loop[0][0]}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            f" `{kind}`. When `thinking` is enabled, a final `assistant` message must start with a thinking"
            " block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you"
            " include thinking blocks from previous turns. To avoid this requirement, disable `thinking`."
            f" {_SEE}"
        )
    for place, message in loop if asked["type"] == "disabled" else ():
        if any(block["type"] in _THOUGHTS for block in _blocks(message)):
            yield (
                f"messages.{place}.content.0.type: When `thinking` is disabled, an `assistant` message in the"
                " final position cannot contain `thinking`. To use thinking blocks, enable `thinking` in your"
                f" request. {_SEE}"
            )


def _open_loop(messages: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """The replies whose calls are being answered, the first one first."""
    loop: list[tuple[int, dict[str, Any]]] = []
    is_answered = False
    for place, message in reversed(list(enumerate(messages))):
        if message["role"] == "assistant":
            if not is_answered:
                break
            loop.insert(0, (place, message))
        is_answered = any(block["type"] == "tool_result" for block in _blocks(message)) or (
            is_answered and message["role"] == "user"
        )
    return loop


def _is_whole(data: str) -> bool:
    """Whether an image in base64 is not a PNG that breaks off."""
    image = b64decode(data)
    return not image.startswith(b"\x89PNG") or image.endswith(b"IEND\xaeB`\x82")


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

"""Claude Code: `claude --print --output-format stream-json`. Each block of a message is a line of its own;
the last line has the total of tokens and money.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mainspring.engines.facts import EngineDescription, EngineFolders, EngineTask
from mainspring.engines.messages import (
    AgentFinished,
    Called,
    Failed,
    Item,
    Named,
    Outage,
    Returned,
    Shown,
    Spoken,
    Thought,
    Used,
    joined,
    outage_of,
)
from mainspring.events import Ending, Usage


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    output_tokens: int | None = 0


class _Message(msgspec.Struct, frozen=True):
    id: str = ""
    content: str | list[dict[str, Any]] = ""
    usage: _Usage | None = None


class _RateLimit(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    resets_at: float | None = None


class _Line(msgspec.Struct, frozen=True):
    type: str
    subtype: str = ""
    session_id: str = ""
    model: str = ""
    parent_tool_use_id: str | None = None
    message: _Message | str | None = None
    event: dict[str, Any] = {}
    rate_limit_info: _RateLimit = _RateLimit()
    result: str | None = None
    errors: list[Any] = []
    error: Any = None
    error_status: int | None = None
    api_error_status: int | None = None
    is_error: bool = False
    total_cost_usd: float | None = None
    usage: _Usage | None = None


_LINE = msgspec.json.Decoder(_Line)
_OUTAGES: dict[object, Outage] = {"rate_limit": "RateLimited", "server_error": "Overloaded"}
_API_ERROR = re.compile(r"API Error: (\d{3})\b")  # how the text of a failed result begins
_ENDINGS: dict[str, Ending] = {"error_max_budget_usd": "budget", "error_max_turns": "limit"}


class ClaudeReader:
    def __init__(self) -> None:
        self._has_streamed = {"text": False, "thinking": False}
        self._resets_at_us: int | None = None
        self._outage: Outage = ""

    def read(self, line: bytes) -> Iterator[Item]:
        said = _LINE.decode(line)
        message = said.message if isinstance(said.message, _Message) else _Message()
        match said.type:
            case "system" if said.subtype == "init":
                yield Named(said.session_id, said.model)
            case "system" if said.subtype == "api_retry":
                self._outage = outage_of(said.error_status) or _outage(said.error)
            case "stream_event" if said.parent_tool_use_id is None:
                yield from self._delta(said.event)
            case "assistant" if said.parent_tool_use_id is None:
                self._outage = _outage(said.error)
                yield from self._reply(message)
            case "user" if said.parent_tool_use_id is None and not isinstance(message.content, str):
                yield from _results(message.content)
            case "rate_limit_event" if said.rate_limit_info.status == "rejected":
                resets_at = said.rate_limit_info.resets_at
                self._resets_at_us = int(resets_at * 1e6) if resets_at else None
            case "result":
                yield from self._result(said)
            case _:
                pass

    def _delta(self, event: dict[str, Any]) -> Iterator[Item]:
        delta: Any = event.get("delta")
        if event.get("type") == "content_block_start":
            self._has_streamed = {"text": False, "thinking": False}
        if event.get("type") != "content_block_delta" or not isinstance(delta, dict):
            return
        for kind in ("text", "thinking"):
            text: object = delta.get(kind)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if isinstance(text, str):
                self._has_streamed[kind] = True
                yield Shown(text, is_thinking=kind == "thinking")

    def _reply(self, message: _Message) -> Iterator[Item]:
        blocks = message.content
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        for block in blocks:
            match block.get("type"):
                case "text":
                    yield Spoken(str(block.get("text", "")), is_shown=self._has_streamed["text"])
                case "thinking":
                    yield Thought(str(block.get("thinking", "")), is_shown=self._has_streamed["thinking"])
                case "tool_use":
                    yield Called(str(block.get("id", "")), str(block.get("name", "")), block.get("input"))
                case _:
                    pass
        if message.usage is not None:
            yield Used(_usage(message.usage), key=message.id or "message")

    def _result(self, said: _Line) -> Iterator[Item]:
        if said.usage is not None or said.total_cost_usd is not None:
            yield Used(_usage(said.usage or _Usage()), said.total_cost_usd)
        if said.is_error or said.subtype != "success":
            reason = said.result or joined(said.errors) or said.subtype or "it said that it failed"
            told = _API_ERROR.match(reason)
            status = said.api_error_status or (int(told[1]) if told else None)
            outage = outage_of(status) or self._outage
            yield Failed(reason, _ENDINGS.get(said.subtype, "failed"), self._resets_at_us, outage)
            return
        yield AgentFinished(said.result or "")


def _outage(error: object) -> Outage:
    return _OUTAGES.get(error, "") if isinstance(error, str) else ""


def _results(blocks: list[dict[str, Any]]) -> Iterator[Item]:
    for block in blocks:
        if block.get("type") == "tool_result":
            output = joined(block.get("content"))
            yield Returned(str(block.get("tool_use_id", "")), output, bool(block.get("is_error")))


def _usage(usage: _Usage) -> Usage:
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Usage(
        input_tokens=(usage.input_tokens or 0) + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=usage.output_tokens or 0,
    )


def _command_line(task: EngineTask) -> tuple[str, ...]:
    if task.mode == "plan":
        access = "plan"
    else:
        access = "bypassPermissions" if task.is_confined or task.mode == "yolo" else "acceptEdits"
    options = ["--print", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    options += ["--permission-mode", access]
    if task.model:
        options += ["--model", task.model]
    if task.left_usd is not None:
        options += ["--max-budget-usd", f"{max(task.left_usd, 0.0001):.4f}"]
    if task.effort:
        options += ["--effort", task.effort]
    if task.conversation:
        options += ["--resume", task.conversation]
    return tuple(options)


def _state(home: Path, environment: Mapping[str, str]) -> EngineFolders:
    if chosen := environment.get("CLAUDE_CONFIG_DIR"):
        return EngineFolders(folders=(Path(chosen),))
    return EngineFolders(folders=(home / ".claude",), files=(home / ".claude.json",))


FACTS = EngineDescription(
    name="claude",
    title="Claude Code",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    arguments=_command_line,
    reader=ClaudeReader,
    state=_state,
    variables=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_MODEL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
    ),
    # As root it bypasses nothing unless it is told that something else holds it.
    confined_variables={"IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1"},
    provider="anthropic",
    reports_cost=True,
    takes_effort=True,
    needs_end=True,
)

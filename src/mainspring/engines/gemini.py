"""Gemini CLI: `gemini --output-format stream-json`. A message comes in pieces; tokens come last."""

from __future__ import annotations

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
    Spoken,
    Used,
    joined,
    outage_of,
)
from mainspring.events import Usage


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    type: str = ""
    code: Any = None


class _Stats(msgspec.Struct, frozen=True):
    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0


class _Line(msgspec.Struct, frozen=True):
    type: str
    session_id: str = ""
    role: str = ""
    content: str = ""
    delta: bool = False
    tool_name: str = ""
    tool_id: str = ""
    parameters: Any = None
    status: str = ""
    output: Any = None
    error: _Error | None = None
    severity: str = ""
    message: str = ""
    stats: _Stats | None = None


_QUOTA_ERRORS = ("RetryableQuotaError", "TerminalQuotaError")
_LINE = msgspec.json.Decoder(_Line)


class GeminiReader:
    def __init__(self) -> None:
        self._error = ""

    def read(self, line: bytes) -> Iterator[Item]:
        said = _LINE.decode(line)
        match said.type:
            case "init":
                yield Named(said.session_id)
            case "message" if said.role == "assistant":
                yield Spoken(said.content, is_piece=said.delta)
            case "tool_use":
                yield Called(said.tool_id, said.tool_name, said.parameters)
            case "tool_result":
                is_error = said.status == "error"
                reason = said.error.message if said.error else ""
                yield Returned(said.tool_id, joined(said.output) or reason, is_error)
            case "error" if said.severity == "error":
                self._error = said.message
            case "result":
                yield from self._result(said)
            case _:
                pass

    def _result(self, said: _Line) -> Iterator[Item]:
        if said.stats is not None:
            yield Used(_usage(said.stats))
        if said.status == "error":
            reason = said.error.message if said.error else ""
            yield Failed(reason or self._error or "it said that it failed", outage=_outage(said.error))
        else:
            yield AgentFinished()


def _outage(error: _Error | None) -> Outage:
    if error is None:
        return ""
    return "RateLimited" if error.type in _QUOTA_ERRORS else outage_of(error.code)


def _usage(stats: _Stats) -> Usage:
    # What it thought is in the total alone, and is paid for as output.
    output = max(stats.output_tokens, stats.total_tokens - stats.input_tokens)
    return Usage(
        input_tokens=stats.input_tokens,
        cached_tokens=stats.cached,
        output_tokens=output,
        reasoning_tokens=output - stats.output_tokens,
    )


def _command_line(task: EngineTask) -> tuple[str, ...]:
    if task.mode == "plan":
        access = "plan"
    else:
        access = "yolo" if task.is_confined or task.mode == "yolo" else "auto_edit"
    model = ("--model", task.model) if task.model else ()
    resumed = ("--resume", task.conversation) if task.conversation else ()
    return ("--output-format", "stream-json", "--approval-mode", access, "--skip-trust", *model, *resumed)


def _state(home: Path, environment: Mapping[str, str]) -> EngineFolders:
    del environment
    return EngineFolders(folders=(home / ".gemini",))


FACTS = EngineDescription(
    name="gemini",
    title="Gemini CLI",
    program="gemini",
    install="npm install -g @google/gemini-cli",
    arguments=_command_line,
    reader=GeminiReader,
    state=_state,
    variables=(
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GEMINI_MODEL",
    ),
    provider="gemini",
    needs_end=True,
)

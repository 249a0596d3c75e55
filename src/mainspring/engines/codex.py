"""Codex: `codex exec --json`. Items of a thread begin and are completed; usage comes when the turn ends."""

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
    Planned,
    Returned,
    Spoken,
    Thought,
    Used,
    joined,
)
from mainspring.events import PlanItem, Usage


class _Item(msgspec.Struct, frozen=True):
    id: str = ""
    type: str = ""
    text: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    status: str = ""
    changes: list[Any] = []
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: Any = None
    query: str = ""
    message: str = ""
    items: list[dict[str, Any]] = []


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _Error(msgspec.Struct, frozen=True):
    message: str = ""


class _Line(msgspec.Struct, frozen=True):
    type: str
    thread_id: str = ""
    item: _Item = _Item()
    usage: _Usage | None = None
    error: _Error | None = None
    message: str = ""


_LINE = msgspec.json.Decoder(_Line)
_EFFORTS = {"max": "xhigh"}
"""Where its own word is another."""


class CodexReader:
    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._error = ""

    def read(self, line: bytes) -> Iterator[Item]:
        said = _LINE.decode(line)
        match said.type:
            case "thread.started":
                yield Named(said.thread_id)
            case "item.started" | "item.updated" | "item.completed":
                yield from self._item(said.item, is_done=said.type == "item.completed")
            case "turn.completed":
                yield from _used(said.usage)
                yield AgentFinished()
            case "turn.failed":
                yield Failed((said.error.message if said.error else "") or self._error or "its turn failed")
            case "error":
                # It tells of each new try by one of these; a turn that fails says so by itself.
                self._error = said.message
            case _:
                pass

    def _item(self, item: _Item, *, is_done: bool) -> Iterator[Item]:
        match item.type:
            case "agent_message" if is_done:
                yield Spoken(item.text)
            case "reasoning" if is_done:
                yield Thought(item.text)
            case "todo_list":
                yield Planned(tuple(map(_planned, item.items)))
            case "command_execution" | "file_change" | "mcp_tool_call" | "web_search":
                yield from self._call(item, is_done=is_done)
            case _:
                pass

    def _call(self, item: _Item, *, is_done: bool) -> Iterator[Item]:
        if item.id not in self._begun:
            self._begun.add(item.id)
            yield Called(item.id, _name(item), _arguments(item))
        if is_done:
            is_error = item.status in ("failed", "declined") or item.exit_code not in (0, None)
            yield Returned(item.id, _output(item), is_error, item.exit_code)


def _name(item: _Item) -> str:
    match item.type:
        case "command_execution":
            return "shell"
        case "mcp_tool_call":
            return f"{item.server}.{item.tool}".strip(".")
        case _:
            return item.type


def _arguments(item: _Item) -> Any:
    match item.type:
        case "command_execution":
            return {"command": item.command}
        case "file_change":
            return {"changes": item.changes}
        case "web_search":
            return {"query": item.query}
        case _:
            return item.arguments


def _output(item: _Item) -> str:
    if item.type == "mcp_tool_call":
        result = item.result
        content = result.get("content") if isinstance(result, dict) else result  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return joined(item.error or content)  # pyright: ignore[reportUnknownArgumentType]
    return item.aggregated_output or ("" if item.type == "command_execution" else item.status)


def _planned(entry: dict[str, Any]) -> PlanItem:
    return PlanItem(text=str(entry.get("text", "")), progress="done" if entry.get("completed") else "open")


def _used(usage: _Usage | None) -> Iterator[Used]:
    if usage is not None:
        yield Used(
            Usage(
                input_tokens=usage.input_tokens,
                cached_tokens=usage.cached_input_tokens,
                output_tokens=usage.output_tokens,
                reasoning_tokens=usage.reasoning_output_tokens,
            )
        )


def _command_line(task: EngineTask) -> tuple[str, ...]:
    resumed = ("resume", task.conversation) if task.conversation else ()
    model = ("--model", task.model) if task.model else ()
    if task.is_confined or task.mode == "yolo":
        access = ("--dangerously-bypass-approvals-and-sandbox",)
    else:
        access = ("--sandbox", "read-only" if task.mode == "plan" else "workspace-write")
    if task.effort:
        model = (*model, "-c", f'model_reasoning_effort="{_EFFORTS.get(task.effort, task.effort)}"')
    options = ("--json", "--skip-git-repo-check", "--color", "never", *access, *model)
    return ("exec", *options, *resumed, "-")


def _state(home: Path, environment: Mapping[str, str]) -> EngineFolders:
    return EngineFolders(folders=(Path(environment.get("CODEX_HOME") or home / ".codex"),))


FACTS = EngineDescription(
    name="codex",
    title="Codex",
    program="codex",
    install="npm install -g @openai/codex",
    arguments=_command_line,
    reader=CodexReader,
    state=_state,
    variables=("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"),
    provider="openai",
    takes_effort=True,
    needs_end=True,
    counts_conversation=True,
)

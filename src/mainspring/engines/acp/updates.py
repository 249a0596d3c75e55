"""What an agent's `session/update` says, in the words that all outside agents share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from acp import schema

from mainspring.engines.messages import Begun, Called, Item, Planned, Returned, Spoken, Thought, Used, joined
from mainspring.events import PlanItem, Progress, Usage

_PROGRESS: dict[str, Progress] = {"pending": "open", "in_progress": "doing", "completed": "done"}


def items_of(update: Any, terminal: dict[str, tuple[str, int | None]]) -> Iterator[Item]:
    """`terminal` has the output and exit code of commands that we run for the agent."""
    match update:
        case schema.AgentMessageChunk():
            yield Spoken(_text(update.content), is_piece=True)
        case schema.AgentThoughtChunk():
            yield Thought(_text(update.content), is_piece=True)
        case schema.ToolCallStart():
            yield called(update)
            yield from _progress(update, terminal)
        case schema.ToolCallProgress():
            yield from _progress(update, terminal)
        case schema.AgentPlanUpdate():
            yield Planned(
                tuple(PlanItem(text=each.content, progress=_PROGRESS[each.status]) for each in update.entries)
            )
        case schema.UsageUpdate() if update.cost is not None and update.cost.currency == "USD":
            yield Used(Usage(), update.cost.amount, key="cost")
        case _:
            pass


def called(call: schema.ToolCall | schema.ToolCallUpdate) -> Called:
    given: Any = call.raw_input
    arguments = given if isinstance(given, dict) and given else {"title": call.title or ""}  # pyright: ignore[reportUnknownVariableType]
    name = call.kind if call.kind and call.kind != "other" else call.title or "tool"
    return Called(call.tool_call_id, name[:60], arguments, is_pending=True)


def used(usage: schema.Usage) -> Used:
    cached, written = usage.cached_read_tokens or 0, usage.cached_write_tokens or 0
    thought = usage.thought_tokens or 0
    return Used(
        Usage(
            input_tokens=usage.input_tokens + cached + written,
            cached_tokens=cached,
            cache_write_tokens=written,
            output_tokens=usage.output_tokens + thought,
            reasoning_tokens=thought,
        ),
        key="tokens",
    )


def _progress(
    call: schema.ToolCall | schema.ToolCallUpdate, terminal: dict[str, tuple[str, int | None]]
) -> Iterator[Item]:
    match call.status:
        case "in_progress":
            yield Begun(call.tool_call_id)
        case "completed" | "failed":
            output, code = _output(call, terminal)
            is_error = call.status == "failed" or code not in (0, None)
            yield Returned(call.tool_call_id, output, is_error, code)
        case _:
            pass


def _output(
    call: schema.ToolCall | schema.ToolCallUpdate, terminal: dict[str, tuple[str, int | None]]
) -> tuple[str, int | None]:
    texts: list[str] = []
    exit_code: int | None = None
    for content in call.content or []:
        match content:
            case schema.FileEditToolCallContent():
                texts.append(f"changed {content.path}")
            case schema.TerminalToolCallContent():
                output, exit_code = terminal.get(content.terminal_id, ("", None))
                texts.append(output)
            case schema.ContentToolCallContent():
                texts.append(_text(content.content))
    return "\n".join(texts) or joined(call.raw_output), exit_code


def _text(content: Any) -> str:
    return content.text if isinstance(content, schema.TextContentBlock) else f"[{content.type}]"

"""Session files of Codex (`rollout-*.jsonl`): a line is a time, a type and a payload.

What was sent to and came from the model are the response items; the other lines repeat them or are settings.
The oldest files have the items without the envelope. Text that Codex put before the user's is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mainspring.engines.transcripts import Telling, Transcript, texts

_ITEMS = {
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
}
_NOT_BY_THE_USER = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def is_ours(first: dict[str, Any]) -> bool:
    """Whether a file that begins with this line is of Codex."""
    is_old = "id" in first and "timestamp" in first and "type" not in first
    return is_old or (first.get("type") == "session_meta" and "payload" in first)


def read(lines: Iterable[bytes], *, first_seq: int) -> Transcript:
    telling = Telling("codex", first_seq=first_seq)
    for text in lines:
        try:
            line = _OBJECT.decode(text)
        except msgspec.MsgspecError:
            telling.left_out += 1
            continue
        telling.at(str(line.get("timestamp", "")))
        payload = line.get("payload")
        kind = line.get("type")
        if kind in _ITEMS:
            _tell(telling, line)
        elif kind is None:
            _tell_settings(telling, line)
        elif isinstance(payload, dict):
            _tell_line(telling, str(kind), msgspec.convert(payload, dict[str, Any]))
    return telling.finish()


def _tell_line(telling: Telling, kind: str, payload: dict[str, Any]) -> None:
    match kind:
        case "session_meta" | "turn_context":
            _tell_settings(telling, payload)
        case "response_item":
            _tell(telling, payload)
        case "compacted":
            telling.compacted(str(payload.get("message", "")))
        case _:
            pass


def _tell_settings(telling: Telling, settings: dict[str, Any]) -> None:
    telling.session = telling.session or str(settings.get("id", ""))
    telling.workspace = telling.workspace or str(settings.get("cwd", ""))
    telling.model = str(settings.get("model") or telling.model)


def _tell(telling: Telling, item: dict[str, Any]) -> None:
    call = str(item.get("call_id", ""))
    match item.get("type"):
        case "message":
            _tell_message(telling, item)
        case "reasoning":
            telling.think("\n".join(texts(item.get("summary"))))
        case "function_call":
            telling.call(str(item.get("name", "")), str(item.get("arguments", "")), call)
        case "custom_tool_call":
            arguments = msgspec.json.encode({"input": item.get("input", "")}).decode()
            telling.call(str(item.get("name", "")), arguments, call)
        case "local_shell_call":
            arguments = msgspec.json.encode(item.get("action") or {}).decode()
            telling.call("local_shell", arguments, call)
        case "function_call_output" | "custom_tool_call_output":
            output, is_error = _output(item.get("output"))
            telling.result(call, output, is_error=is_error)
        case _:
            telling.left_out += 1


def _tell_message(telling: Telling, item: dict[str, Any]) -> None:
    text = "\n".join(texts(item.get("content")))
    match item.get("role"):
        case "assistant":
            telling.say(text)
        case "user" if not text.lstrip().startswith(_NOT_BY_THE_USER):
            telling.user(text)
        case _:
            pass


def _output(output: object) -> tuple[str, bool]:
    """What a call gave: plain text, or JSON that wraps the text and the exit code."""
    if not isinstance(output, str):
        return "\n".join(texts(output)) or msgspec.json.encode(output).decode(), False
    try:
        wrapped = _OBJECT.decode(output)
    except msgspec.MsgspecError:
        return output, False
    inner = wrapped.get("output")
    metadata = wrapped.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else 0  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return (inner, code not in (0, None)) if isinstance(inner, str) else (output, False)

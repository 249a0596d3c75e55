"""Session files of Codex (`rollout-*.jsonl`): a line is a time, a type and a payload.

What was sent to and came from the model are the response items; the other lines repeat them or are settings.
The oldest files have the items without the envelope. Text that Codex put beside the user's is left out. A
summary that only the provider can read is no use here: the history before it then stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
_NOT_SAID = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<additional_context>",
    "<skill>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
)
_TOLD = ("<user_shell_command>", "<subagent_notification>")
_EXIT = re.compile(r"(?:^|\n)(?:Exit code:|Process exited with code) (-?\d+)\n")
_BEGINS = re.compile(r"(?:Exit code: -?\d|Chunk ID: |Wall time: )")
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
            _tell_compaction(telling, payload)
        case "event_msg" if payload.get("type") == "thread_rolled_back":
            turns = payload.get("num_turns")
            telling.taken_back(turns if isinstance(turns, int) else 0)
        case "event_msg" if payload.get("type") == "turn_aborted":
            telling.interrupted()
        case _:
            pass


def _tell_settings(telling: Telling, settings: dict[str, Any]) -> None:
    telling.session = telling.session or str(settings.get("id", ""))
    telling.workspace = telling.workspace or str(settings.get("cwd", ""))
    telling.model = str(settings.get("model") or telling.model)


def _tell_compaction(telling: Telling, payload: dict[str, Any]) -> None:
    """What Codex goes on with: the history that it wrote down for that, or what was said and a summary."""
    summary = str(payload.get("message") or "")
    history = payload.get("replacement_history")
    items = msgspec.convert(history, list[dict[str, Any]]) if isinstance(history, list) else []
    if any("compaction" in str(item.get("type", "")) for item in items) or not (items or summary):
        telling.left_out += 1
        return
    kept = [text for item in items if item.get("type") == "message" for text in _said(item)]
    kept = kept or telling.said
    telling.compacted("\n\n".join([*kept, *([summary] if summary and summary not in kept else [])]))


def _tell(telling: Telling, item: dict[str, Any]) -> None:
    call = str(item.get("call_id", ""))
    match item.get("type"):
        case "message":
            _tell_message(telling, item)
        case "reasoning":
            telling.think("\n".join(texts(item.get("summary"))) or "\n".join(texts(item.get("content"))))
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
    match item.get("role"):
        case "assistant":
            telling.say("\n".join(texts(item.get("content"))))
        case "user":
            said = list(_said(item))
            for text in said:
                if text.lstrip().startswith(_TOLD):
                    telling.note(text)
            telling.user("\n".join(text for text in said if not text.lstrip().startswith(_TOLD)))
        case _:
            pass


def _said(item: dict[str, Any]) -> Iterator[str]:
    """The texts of a message but for those that repeat settings and instructions."""
    return (text for text in texts(item.get("content")) if not text.lstrip().startswith(_NOT_SAID))


def _output(output: object) -> tuple[str, bool]:
    """What a call gave, and whether it failed: text, perhaps with a head that says the exit code, blocks, or
    JSON around the text."""
    if isinstance(output, dict):
        wrapped = msgspec.convert(output, dict[str, Any])
    elif isinstance(output, list):
        return _text_output("\n".join(texts(output)))  # pyright: ignore[reportUnknownArgumentType]
    else:
        try:
            wrapped = _OBJECT.decode(str(output))
        except msgspec.MsgspecError:
            return _text_output(str(output))
    inner = wrapped.get("output", wrapped.get("content"))
    metadata = wrapped.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else 0  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    is_error = code not in (0, None) or wrapped.get("success") is False
    if isinstance(inner, str):
        return inner, is_error
    return output if isinstance(output, str) else msgspec.json.encode(output).decode(), is_error


def _text_output(text: str) -> tuple[str, bool]:
    head = text.partition("Output:\n")[0] if _BEGINS.match(text) else ""
    code = _EXIT.search(head)
    return text, bool(code and int(code[1]))

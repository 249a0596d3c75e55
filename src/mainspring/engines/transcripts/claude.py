"""Session files of Claude Code: one JSON object per line, which together form a tree.

The branch that ends with the newest line is taken. Lines with one message id are one reply; results of calls
that ran side by side hang beside the branch and are collected. Side chains (sub-agents) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mainspring.engines.transcripts import Telling, Transcript, texts


class _Message(msgspec.Struct, frozen=True):
    id: str = ""
    model: str = ""
    content: str | list[dict[str, Any]] = ""


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    uuid: str = ""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str = ""
    cwd: str = ""
    timestamp: str = ""
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    message: _Message | None = None


def is_ours(first: dict[str, Any]) -> bool:
    """Whether a file that begins with this line is of Claude Code."""
    return "sessionId" in first or "parentUuid" in first or first.get("type") in {
        "summary",
        "file-history-snapshot",
        "queue-operation",
    }  # fmt: skip


def read(lines: Iterable[bytes], *, first_seq: int) -> Transcript:
    telling = Telling("claude-code", first_seq=first_seq)
    records: list[_Line] = []
    for text in lines:
        try:
            record = msgspec.json.decode(text, type=_Line)
        except msgspec.MsgspecError:
            telling.left_out += 1
            continue
        if record.message is None and record.type != "system":
            continue
        records.append(record)
    branch = _branch(records)
    telling.left_out += sum(record.message is not None for record in records) - len(branch)
    reply = ""
    for record in branch:
        message = record.message or _Message()
        if record.type != "assistant" or message.id != reply:
            telling.end_reply()
        reply = message.id if record.type == "assistant" else ""
        telling.session = record.session_id or telling.session
        telling.workspace = telling.workspace or record.cwd
        telling.model = message.model or telling.model
        telling.at(record.timestamp)
        _tell(telling, record, message)
    return telling.finish()


def _branch(records: list[_Line]) -> list[_Line]:
    """The lines of the newest branch, in their order."""
    by_uuid = {record.uuid: record for record in records}
    spoken = [record for record in records if record.message is not None and not record.is_sidechain]
    chosen: set[str] = set()
    at = spoken[-1] if spoken else None
    while at is not None and at.uuid not in chosen:
        chosen.add(at.uuid)
        at = by_uuid.get(at.parent_uuid or at.logical_parent_uuid or "")
    replies = {record.message.id for record in spoken if record.uuid in chosen and record.message} - {""}
    chosen |= {record.uuid for record in spoken if record.message and record.message.id in replies}
    asked = {call for record in spoken if record.uuid in chosen for call in _ids(record, "tool_use", "id")}
    chosen |= {
        record.uuid for record in spoken if asked.intersection(_ids(record, "tool_result", "tool_use_id"))
    }
    return [record for record in spoken if record.uuid in chosen]


def _ids(record: _Line, kind: str, name: str) -> list[str]:
    content = record.message.content if record.message else ""
    if isinstance(content, str):
        return []
    return [str(block.get(name, "")) for block in content if block.get("type") == kind]


def _tell(telling: Telling, record: _Line, message: _Message) -> None:
    if record.type == "assistant":
        _tell_reply(telling, message)
    elif record.is_compact_summary:
        telling.compacted("\n".join(texts(message.content)))
    elif record.type == "user" and not record.is_meta:
        if isinstance(message.content, str):
            telling.user(message.content)
            return
        for block in message.content:
            if block.get("type") == "tool_result":
                output = "\n".join(texts(block.get("content")))
                telling.result(
                    str(block.get("tool_use_id", "")), output, is_error=bool(block.get("is_error"))
                )
        said = [block for block in message.content if block.get("type") != "tool_result"]
        telling.user("\n".join(texts(said)))


def _tell_reply(telling: Telling, message: _Message) -> None:
    content = (
        [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
    )
    for block in content:
        match block.get("type"):
            case "text":
                telling.say(str(block.get("text", "")))
            case "thinking":
                telling.think(str(block.get("thinking", "")))
            case "tool_use":
                arguments = msgspec.json.encode(block.get("input") or {}).decode()
                telling.call(str(block.get("name", "")), arguments, str(block.get("id", "")))
            case _:
                telling.left_out += 1

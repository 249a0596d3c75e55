"""Session files of Claude Code: one JSON object per line, which together form a tree.

The branch that ends with the newest line is taken; lines that say nothing (attachments, progress) are part of
it. Lines with one message id are one reply, also when a result stands between them; results of calls that ran
side by side hang beside the branch and are collected. Side chains (sub-agents) are left out, unless the file
has nothing else. What Claude Code said in the model's place (errors of its provider) was no reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mainspring.engines.transcripts import Telling, Transcript, texts

_COMMAND_OUTPUT = ("<local-command-", "Caveat: The messages below")
_INTERRUPTED = "[Request interrupted by user"
_TOLD = ("<task-notification>", "<bash-input>", "<bash-stdout>", "<bash-stderr>", "<teammate-message")
_SYNTHETIC = "<synthetic>"


class _Message(msgspec.Struct, frozen=True):
    id: str = ""
    model: str = ""
    content: str | list[dict[str, Any]] = ""


class _Segment(msgspec.Struct, frozen=True, rename="camel"):
    head_uuid: str = ""


class _Compaction(msgspec.Struct, frozen=True, rename="camel"):
    preserved_segment: _Segment | None = None


class _Attachment(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    prompt: Any = None
    command_mode: str = ""


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
    is_api_error_message: bool = False
    message: _Message | None = None
    attachment: _Attachment | None = None
    compact_metadata: _Compaction | None = None

    @property
    def is_queued(self) -> bool:
        """Whether it is what the user said while the agent was at work."""
        return self.attachment is not None and (self.attachment.type, self.attachment.command_mode) == (
            "queued_command",
            "prompt",
        )


class _Link(msgspec.Struct, frozen=True, rename="camel"):
    """What is needed of a line that says nothing."""

    type: str = ""
    uuid: str = ""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None


def is_ours(first: dict[str, Any]) -> bool:
    """Whether a file that begins with this line is of Claude Code."""
    return "sessionId" in first or "parentUuid" in first or first.get("type") in {
        "summary",
        "file-history-snapshot",
        "queue-operation",
    }  # fmt: skip


def read(lines: Iterable[bytes], *, first_seq: int) -> Transcript:
    telling = Telling("claude-code", first_seq=first_seq)
    records = [record for text in lines if (record := _line(text, telling))]
    spoken = [record for record in records if record.message is not None or record.is_queued]
    spoken = [record for record in spoken if not record.is_sidechain] or spoken
    branch = _branch(records, spoken)
    said = sum(record.message is not None for record in records)
    telling.left_out += said - sum(record.message is not None for record in branch)
    boundaries = {record.uuid: record.compact_metadata for record in records if record.compact_metadata}
    heads: dict[str, int] = {}
    reply = ""
    for record in branch:
        message = record.message or _Message()
        if record.type != "assistant" or message.id != reply:
            telling.end_reply()
        reply = message.id if record.type == "assistant" else ""
        telling.session = record.session_id or telling.session
        telling.workspace = telling.workspace or record.cwd
        telling.model = message.model if message.model not in ("", _SYNTHETIC) else telling.model
        telling.at(record.timestamp)
        heads[record.uuid] = telling.next_seq
        if record.is_compact_summary:
            boundary = boundaries.get(record.parent_uuid or "")
            segment = boundary.preserved_segment if boundary else None
            kept = heads.get(segment.head_uuid) if segment else None
            telling.compacted("\n".join(texts(message.content)), keep_from_seq=kept)
        else:
            _tell(telling, record, message)
    return telling.finish()


def _line(text: bytes, telling: Telling) -> _Line | None:
    """A line; one that is not understood, or that says nothing, is still a link between others."""
    try:
        return msgspec.json.decode(text, type=_Line)
    except msgspec.MsgspecError:
        pass
    try:
        link = msgspec.json.decode(text, type=_Link)
    except msgspec.MsgspecError:
        link = _Link(type="user")
    telling.left_out += link.type in ("user", "assistant")
    return _Line(
        type=link.type,
        uuid=link.uuid,
        parent_uuid=link.parent_uuid,
        logical_parent_uuid=link.logical_parent_uuid,
    )


def _branch(records: list[_Line], spoken: list[_Line]) -> list[_Line]:
    """What was said in the newest branch, in its order, the lines of one reply together."""
    by_uuid = {record.uuid: record for record in records if record.uuid}
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
    begins: dict[str, int] = {}
    places: list[tuple[int, _Line]] = []
    for place, record in enumerate(spoken):
        if record.uuid in chosen and not record.is_api_error_message:
            reply = record.message.id if record.message and record.type == "assistant" else ""
            places.append((begins.setdefault(reply, place) if reply else place, record))
    return [record for _, record in sorted(places, key=lambda item: item[0])]


def _ids(record: _Line, kind: str, name: str) -> list[str]:
    content = record.message.content if record.message else ""
    if isinstance(content, str):
        return []
    return [str(block.get(name, "")) for block in content if block.get("type") == kind]


def _tell(telling: Telling, record: _Line, message: _Message) -> None:
    if record.type == "assistant":
        _tell_reply(telling, message)
    elif record.is_queued and record.attachment:
        telling.user("\n".join(texts(record.attachment.prompt)))
    elif record.type == "user" and not record.is_meta:
        content = [{"text": message.content}] if isinstance(message.content, str) else message.content
        for block in content:
            if block.get("type") == "tool_result":
                output = "\n".join(texts(block.get("content")))
                telling.result(
                    str(block.get("tool_use_id", "")), output, is_error=bool(block.get("is_error"))
                )
        _tell_said(telling, "\n".join(texts([b for b in content if b.get("type") != "tool_result"])))


def _tell_said(telling: Telling, text: str) -> None:
    start = text.lstrip()
    if start.startswith(_INTERRUPTED):
        telling.interrupted()
    elif start.startswith(_TOLD):
        telling.note(text)
    elif not start.startswith(_COMMAND_OUTPUT):
        telling.user(text)


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

"""Tool calls as a client shows them: what kind they are, which files they are about, what came of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from acp import helpers, schema

from mainspring.documents.call_lines import call_line
from mainspring.events import CallAsked, CallEnded, tool_of
from mainspring.events.decoding import DECODE_ERRORS

_KINDS: dict[str, schema.ToolKind] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "patch": "edit",
    "find": "search",
    "grep": "search",
    "shell": "execute",
    "process": "execute",
    "execute": "execute",
    "fetch": "fetch",
    "plan": "think",
    "note": "think",
    "finish": "think",
}
_TAIL = 4000
_FENCES = re.compile("`{3,}")


class ShownCall:
    """A call as a client knows it; each update replaces the content before, so all of it is kept here."""

    def __init__(self, asked: CallAsked, workspace: Path, *, has_terminals: bool) -> None:
        self.id = asked.call
        self._asked = asked
        self._workspace = workspace
        self._diffs: list[schema.FileEditToolCallContent] = []
        self._notes: list[str] = []
        self._live = ""
        self._is_terminal = has_terminals and self.kind == "execute"

    @property
    def kind(self) -> schema.ToolKind:
        return _KINDS.get(tool_of(self._asked.name), "other")

    @property
    def arguments(self) -> Any:
        """What the model wrote, which may not be JSON."""
        try:
            return msgspec.json.decode(self._asked.arguments or "{}")
        except DECODE_ERRORS:
            return {"text": self._asked.arguments}

    def started(self, status: schema.ToolCallStatus = "pending") -> schema.ToolCallStart:
        return schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=self.id,
            title=call_line(self._asked).removeprefix("→ ").strip(),
            kind=self.kind,
            status=status,
            raw_input=self.arguments,
            locations=self._locations(),
            content=[helpers.tool_terminal_ref(self.id)] if self._is_terminal else None,
            field_meta={"terminal_info": {"terminal_id": self.id}} if self._is_terminal else None,
        )

    def running(self) -> schema.ToolCallProgress:
        return self._progress("in_progress")

    def printed(self, text: str) -> schema.ToolCallProgress:
        """Output as it comes: what is new where the client has terminals of ours, else the end of it all."""
        if self._is_terminal:
            return self._progress(None, {"terminal_output": {"terminal_id": self.id, "data": text}})
        self._live = (self._live + text)[-_TAIL:]
        return self._progress("in_progress", output=self._live)

    def noted(self, text: str) -> schema.ToolCallProgress:
        """Something that a person should know about it."""
        self._notes.append(text)
        return self._progress(None)

    def changed(self, path: Path, before: str | None, after: str) -> schema.ToolCallProgress:
        self._diffs.append(helpers.tool_diff_content(str(path), after, before))
        return self._progress(None)

    def concerns(self, path: Path) -> bool:
        return any(each.path == str(path) for each in self._locations())

    def ended(self, ended: CallEnded) -> schema.ToolCallProgress:
        status: schema.ToolCallStatus = "completed" if ended.outcome == "ok" else "failed"
        exit_status = {"terminal_id": self.id, "exit_code": ended.exit_code, "signal": None}
        progress = self._progress(
            status, {"terminal_exit": exit_status} if self._is_terminal else None, output=ended.output
        )
        progress.raw_output = {
            "outcome": ended.outcome,
            **({} if ended.exit_code is None else {"exit_code": ended.exit_code}),
        }
        return progress

    def _progress(
        self, status: schema.ToolCallStatus | None, meta: dict[str, Any] | None = None, *, output: str = ""
    ) -> schema.ToolCallProgress:
        content: list[Any] = [*self._diffs]
        content += [helpers.tool_content(helpers.text_block(note)) for note in self._notes]
        if self._is_terminal:
            content.append(helpers.tool_terminal_ref(self.id))
        elif output.strip() and not (self._diffs and self.kind == "edit" and status == "completed"):
            content.append(helpers.tool_content(helpers.text_block(_fenced(output))))
        return schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=self.id,
            status=status,
            content=content or None,
            field_meta=meta,
        )

    def _locations(self) -> list[schema.ToolCallLocation]:
        match self.arguments:
            case {"path": str(path), **rest} if not path.startswith(("blob:", "event:")):
                offset = rest.get("offset")
                line = offset if isinstance(offset, int) and offset > 0 else None
                return [schema.ToolCallLocation(path=str(self._workspace / path), line=line)]
            case _:
                return []


def _fenced(text: str) -> str:
    """The text as it is, in a client that shows Markdown."""
    fence = "`" * (max((len(each) for each in _FENCES.findall(text)), default=2) + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"

"""A session with hooks: a scripted model that asks for one command, and files that say what hooks do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.hook_files import list_hook_files
from mainspring.app.operations.trust import approve
from mainspring.events import CallEnded, HookEnded, HookStarted
from mainspring.settings import Config
from mainspring.testing import Stage, tool_call

RAN = "ran.txt"


class Hooked(Stage):
    """`hooks` by event: commands, or (matcher, command), or whole entries."""

    def with_hooks(self, file: str = ".mainspring/hooks.json", **events: Any) -> Hooked:
        path = self.workspace / file
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {event: [_group(each) for each in _listed(given)] for event, given in events.items()}
        path.write_text(json.dumps({"hooks": content}))
        return self

    def script_file(self, name: str, text: str) -> str:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    @property
    def config(self) -> Config:
        return self._config()

    def trusted(self) -> Hooked:
        for each in list_hook_files(self.workspace, self.config):
            if each.file.subject:
                approve(self.config, each.file.subject)
        return self

    @property
    def has_run(self) -> bool:
        return (self.workspace / RAN).exists()

    @property
    def call(self) -> CallEnded:
        (ended,) = self.events(CallEnded)
        return ended

    @property
    def ends(self) -> list[HookEnded]:
        return self.events(HookEnded)

    @property
    def starts(self) -> list[HookStarted]:
        return self.events(HookStarted)


def _listed(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list) else [given]


def _group(given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        return {"hooks": [{"type": "command", **given}]} if "hooks" not in given else given
    matcher, command = given if isinstance(given, tuple) else (None, given)
    hooks = [{"type": "command", "command": command}]
    return {"hooks": hooks} if matcher is None else {"matcher": matcher, "hooks": hooks}


def staged(folder: Path, command: str = f"touch {RAN}") -> Hooked:
    """A session whose model asks for one command, and then is done."""
    return Hooked(folder, tool_call("shell", command=command), "Done.")


def answer(**fields: Any) -> str:
    """A command that prints a JSON answer."""
    text = msgspec.json.encode(fields).decode().replace("'", "'\\''")
    return f"echo '{text}'"


def decided(decision: str, reason: str = "", **fields: Any) -> str:
    """A command that prints a decision of PreToolUse."""
    special = {"hookEventName": "PreToolUse", "permissionDecision": decision, **fields}
    if reason:
        special["permissionDecisionReason"] = reason
    return answer(hookSpecificOutput=special)

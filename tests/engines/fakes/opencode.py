"""Speaks as `opencode run --format json` does: a call is told when it has ended."""

import sys

from acting import act, put


class Opencode:
    def __init__(self) -> None:
        self.command = ""
        self.parts = 0

    def begin(self) -> None:
        self._put("step_start", {"type": "step-start"})

    def say(self, text: str) -> None:
        self._put("text", {"type": "text", "text": text})

    def call(self, command: str) -> None:
        self.command = command

    def result(self, output: str, code: int) -> None:
        state = {
            "status": "completed",
            "input": {"command": self.command},
            "output": output,
            "metadata": {"exit": code},
        }
        self._put("tool_use", {"type": "tool", "tool": "bash", "callID": f"c{self.parts}", "state": state})

    def end(self) -> None:
        tokens = {"input": 600, "output": 100, "reasoning": 0, "cache": {"read": 400, "write": 0}}
        self._put("step_finish", {"type": "step-finish", "reason": "stop", "cost": 0.125, "tokens": tokens})

    def _put(self, kind: str, part: dict) -> None:
        self.parts += 1
        put({"type": kind, "timestamp": 1, "sessionID": "ses_1", "part": {"id": f"p{self.parts}", **part}})


act(Opencode(), "" if "--version" in sys.argv else sys.stdin.read())

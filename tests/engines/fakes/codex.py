"""Speaks as `codex exec --json` does."""

import sys

from acting import act, put


class Codex:
    def __init__(self) -> None:
        self.items = 0
        self.open = ""
        self.command = ""

    def begin(self) -> None:
        resumed = sys.argv[sys.argv.index("resume") + 1] if "resume" in sys.argv else ""
        put({"type": "thread.started", "thread_id": resumed or "thread-1"})
        put({"type": "turn.started"})

    def say(self, text: str) -> None:
        self.items += 1
        put(
            {
                "type": "item.completed",
                "item": {"id": f"item_{self.items}", "type": "reasoning", "text": "Hm."},
            }
        )
        self.items += 1
        put(
            {
                "type": "item.completed",
                "item": {"id": f"item_{self.items}", "type": "agent_message", "text": text},
            }
        )

    def call(self, command: str) -> None:
        self.items += 1
        self.open, self.command = f"item_{self.items}", command
        item = {"id": self.open, "type": "command_execution", "command": command, "aggregated_output": ""}
        put({"type": "item.started", "item": {**item, "exit_code": None, "status": "in_progress"}})

    def result(self, output: str, code: int) -> None:
        item = {"id": self.open, "type": "command_execution", "command": self.command, "exit_code": code}
        status = "failed" if code else "completed"
        put({"type": "item.completed", "item": {**item, "aggregated_output": output, "status": status}})

    def end(self) -> None:
        usage = {"input_tokens": 1000, "cached_input_tokens": 400, "output_tokens": 100}
        put({"type": "turn.completed", "usage": usage})


act(Codex(), "" if "--version" in sys.argv else sys.stdin.read())

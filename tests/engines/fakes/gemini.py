"""Speaks as `gemini --output-format stream-json` does."""

import sys

from acting import act, put


class Gemini:
    def __init__(self) -> None:
        self.calls = 0

    def begin(self) -> None:
        put({"type": "init", "session_id": "session-1", "model": "gemini-2.5-pro"})
        put({"type": "message", "role": "user", "content": "what was asked"})

    def say(self, text: str) -> None:
        half = len(text) // 2
        for piece in (text[:half], text[half:]):
            put({"type": "message", "role": "assistant", "content": piece, "delta": True})

    def call(self, command: str) -> None:
        self.calls += 1
        name, parameters = "run_shell_command", {"command": command}
        put({"type": "tool_use", "tool_name": name, "tool_id": f"t{self.calls}", "parameters": parameters})

    def result(self, output: str, code: int) -> None:
        status = "error" if code else "success"
        put({"type": "tool_result", "tool_id": f"t{self.calls}", "status": status, "output": output})

    def end(self) -> None:
        stats = {"total_tokens": 1100, "input_tokens": 1000, "output_tokens": 90, "cached": 400}
        put({"type": "result", "status": "success", "stats": stats})


act(Gemini(), "" if "--version" in sys.argv else sys.stdin.read())

"""Speaks as `claude --print --output-format stream-json` does."""

import sys

from acting import act, put

USAGE = {
    "input_tokens": 600,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 400,
    "output_tokens": 100,
}


class Claude:
    def __init__(self) -> None:
        self.messages = 0
        self.text = ""

    def begin(self) -> None:
        resumed = sys.argv[sys.argv.index("--resume") + 1] if "--resume" in sys.argv else ""
        put({"type": "system", "subtype": "init", "session_id": resumed or "session-1", "tools": []})

    def say(self, text: str) -> None:
        self.text = text
        delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
        put({"type": "stream_event", "event": delta, "parent_tool_use_id": None})
        self._message({"type": "thinking", "thinking": "Hm.", "signature": "s"})
        self._message({"type": "text", "text": text})

    def call(self, command: str) -> None:
        block = {
            "type": "tool_use",
            "id": f"toolu_{self.messages}",
            "name": "Bash",
            "input": {"command": command},
        }
        self.open = block["id"]
        self._message(block)

    def result(self, output: str, code: int) -> None:
        result = {
            "type": "tool_result",
            "tool_use_id": self.open,
            "content": [{"type": "text", "text": output}],
        }
        content = [{**result, "is_error": bool(code)}]
        put({"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None})

    def end(self) -> None:
        put(
            {
                "type": "result",
                "subtype": "success",
                "is_error": False,
                "result": self.text,
                "total_cost_usd": 0.25,
                "usage": USAGE,
            }
        )

    def _message(self, block: dict) -> None:
        self.messages += 1
        message = {"id": f"msg_{self.messages}", "role": "assistant", "content": [block], "usage": None}
        put({"type": "assistant", "message": message, "parent_tool_use_id": None})


act(Claude(), "" if "--version" in sys.argv else sys.stdin.read())

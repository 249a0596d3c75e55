"""A client that speaks lines with `mainspring acp` and keeps each one that comes, whatever it is."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Self

from tests.cli.conftest import Machine

Message = dict[str, Any]
HELLO = {"protocolVersion": 1, "clientCapabilities": {}}


class AcpWire:
    """It can do nothing: no files, no terminals, no forms. Asked for permission it takes the first option;
    whatever else it is asked is kept in `asked` and refused."""

    def __init__(self, machine: Machine, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mainspring", "acp", *arguments],
            cwd=machine.workspace,
            env=machine.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.workspace = str(machine.workspace)
        self.lines: list[bytes] = []
        self.heard: list[Message] = []
        self.asked: list[Message] = []
        self.methods: dict[Any, str] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: Message | None = None, number: Any = None) -> Any:
        """Sends a request; gives its id."""
        number = next(self._numbers) if number is None else number
        self.methods[number] = method
        self.send({"id": number, "method": method, "params": params or {}})
        return number

    def answer(self, number: Any) -> Message:
        """The answer to a request, once it has come."""
        return self.until(lambda message: "method" not in message and message["id"] == number)

    def ask(self, method: str, params: Message | None = None, number: Any = None) -> Message:
        return self.answer(self.begin(method, params, number))

    def get(self, method: str, params: Message | None = None) -> Message:
        """The result of a request, which must not fail."""
        answer = self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def new(self, **params: Any) -> str:
        return self.get("session/new", {"cwd": self.workspace, "mcpServers": [], **params})["sessionId"]

    def prompt(self, session: str, *blocks: Message, text: str = "hello", **params: Any) -> Message:
        said = [{"type": "text", "text": text}, *blocks]
        return self.get("session/prompt", {"sessionId": session, "prompt": said, **params})

    def updates(self, session: str, since: int = 0) -> list[Message]:
        """What was told of a session, from the message of this number on."""
        told = [each["params"] for each in self.heard[since:] if each.get("method") == "session/update"]
        return [each["update"] for each in told if each["sessionId"] == session]

    def until(self, is_it: Callable[[Message], bool]) -> Message:
        """The first message that is it, of those that came and those to come."""
        for message in itertools.chain(self.heard.copy(), self._read()):
            if is_it(message):
                return message
        raise AssertionError(f"it did not come: {self.heard[-3:]}")

    def end(self) -> int:
        """Hangs up, hears what is left, and gives the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        list(self._read())
        return self.process.wait()

    def _read(self) -> Iterator[Message]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            message = json.loads(line)
            self.heard.append(message)
            if "method" in message and "id" in message:
                self._refuse_or_allow(message)
            yield message

    def _refuse_or_allow(self, message: Message) -> None:
        self.asked.append(message)
        if message["method"] == "session/request_permission":
            first = message["params"]["options"][0]["optionId"]
            self.send(
                {"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": first}}}
            )
        else:
            self.send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})

"""The main exchanges of the protocol as they stand on the wire, in `acp.golden.json`: what a client relies on.

Ids, ports, folders, times and versions are replaced by words. A change that is meant is taken over from the file that
a failing test names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.cli.conftest import Machine
from tests.protocols.test_acp import call
from tests.protocols.wire import HELLO, AcpWire

GOLDEN = Path(__file__).with_name("acp.golden.json")
WORK = {
    "contains": "make it",
    "replies": [
        call("plan", items=[{"text": "make it", "progress": "done"}]),
        call("write", path="made.txt", content="x\n"),
        {"text": "Made."},
    ],
}
LONG = {"contains": "take long", "replies": [call("shell", command="echo it has begun to run; sleep 1000")]}


def test_the_main_exchanges_are_as_they_were(machine: Machine, tmp_path: Path) -> None:
    model = machine.serve({"text": "Hello."}, cases=[WORK, LONG])
    with AcpWire(machine, "--mode", "ask", "--model", model) as wire:
        found = {"initialize": part(wire, lambda: wire.get("initialize", HELLO))}
        found["session/new"] = part(wire, lambda: new(wire))
        first, session, other = (new(wire) for _ in range(3))
        found["prompt"] = part(wire, lambda: wire.prompt(first))
        found["prompt with a call that is asked for"] = part(
            wire, lambda: wire.prompt(session, text="make it")
        )
        chosen = part(wire, lambda: set_effort(wire, session))
        # Whether the update comes before the reply or after it is not promised.
        found["session/set_config_option"] = sorted(chosen, key=lambda each: "method" in each)
        loaded = {"sessionId": session, "cwd": wire.workspace, "mcpServers": []}
        found["session/load"] = part(wire, lambda: wire.get("session/load", loaded))
        found["session/cancel"] = part(wire, lambda: cancel(wire, other))
        found["session/list"] = part(wire, lambda: wire.get("session/list"))
        found["session/close"] = part(wire, lambda: wire.get("session/close", {"sessionId": session}))
        found["an error"] = part(
            wire, lambda: wire.ask("session/prompt", {"sessionId": session, "prompt": []})
        )
    parts = [f"{json.dumps(name)}: [\n{lines(messages)}\n]" for name, messages in found.items()]
    text = replaced("{" + ",\n".join(parts) + "}", machine, model)
    written = tmp_path / GOLDEN.name
    written.write_text(text + "\n")
    assert json.loads(text) == json.loads(GOLDEN.read_text()), f"the exchanges are now as in {written}"


def lines(messages: list[Any]) -> str:
    return ",\n".join(json.dumps(each, ensure_ascii=False, sort_keys=True) for each in messages)


def new(wire: AcpWire) -> str:
    session = wire.new()
    wire.until(lambda message: told(message, session, "available_commands_update"))
    return session


def set_effort(wire: AcpWire, session: str) -> None:
    wire.get("session/set_config_option", {"sessionId": session, "configId": "effort", "value": "high"})
    wire.until(lambda message: told(message, session, "config_option_update"))


def part(wire: AcpWire, do: Any) -> list[Any]:
    """What is said while something is done; output of commands comes in pieces of any size and is left out."""
    since = len(wire.heard)
    do()
    return [each for each in wire.heard[since:] if not is_output(each)]


def told(message: dict[str, Any], session: str, kind: str) -> bool:
    params = message.get("params", {})
    return params.get("sessionId") == session and params.get("update", {}).get("sessionUpdate") == kind


def is_output(message: dict[str, Any]) -> bool:
    update = message.get("params", {}).get("update", {})
    return update.get("status") == "in_progress" and bool(update.get("content"))


def cancel(wire: AcpWire, session: str) -> None:
    said = [{"type": "text", "text": "take long"}]
    number = wire.begin("session/prompt", {"sessionId": session, "prompt": said})
    wire.until(is_output)
    wire.send({"method": "session/cancel", "params": {"sessionId": session}})
    wire.answer(number)


def replaced(text: str, machine: Machine, model: str) -> str:
    text = text.replace(str(machine.workspace), "WORKSPACE").replace(model, "MODEL")
    for key, word in (("sessionId", "SESSION"), ("toolCallId", "CALL")):
        for number, name in enumerate(dict.fromkeys(re.findall(rf'"{key}": "([^"]+)"', text)), 1):
            text = text.replace(name, f"{word}-{number}")
    text = re.sub(r'"updatedAt": "[^"]+"', '"updatedAt": "TIME"', text)
    text = re.sub(r'"id": "[0-9a-f-]{32,}"', '"id": "REQUEST"', text)
    text = re.sub(r'"(\w*[tT]okens|used)": \d+', r'"\1": 0', text)
    return re.sub(r'"version": "[^"]+"', '"version": "VERSION"', text)

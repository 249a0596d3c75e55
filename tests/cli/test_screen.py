"""What could steer a terminal or deceive the eye is never printed as it is: visible in text, escaped in JSON."""

from __future__ import annotations

import json
import re

import pytest

from mainspring.events.escaping import escape_json
from tests.cli.conftest import Machine, lines

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
HOSTILE = "a\x9b31mred\u202egpj.exe\u2066x\x7f\u200b\U000e0041é密"
RAW = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")


def test_escaped_json_says_the_same() -> None:
    data = json.dumps({HOSTILE: [HOSTILE, 1]}, ensure_ascii=False).encode()
    escaped = escape_json(data)
    assert not RAW.search(escaped.decode())
    assert json.loads(escaped) == json.loads(data)
    assert "é密".encode() in escaped


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--json"),
        ("run",),
        ("show", "--json"),
        ("show", "--all"),
        ("sessions", "--json"),
        ("sessions",),
        ("export", "--format", "jsonl"),
        ("export", "--format", "markdown"),
        ("export", "--format", "html"),
    ],
)
def test_no_command_prints_characters_that_steer_a_terminal(
    machine: Machine, command: tuple[str, ...]
) -> None:
    (machine.workspace / "odd.txt").write_text(HOSTILE)
    reply = {"calls": [{"name": "read", "arguments": {"path": "odd.txt", "": HOSTILE}}], "text": HOSTILE}
    model = machine.serve(reply, {"text": HOSTILE})
    ran = machine.run("run", f"say {HOSTILE}", "--model", model, *FREE, *command[1:2] * (command[0] == "run"))
    assert ran.returncode == 0, ran.stderr
    if command[0] != "run":
        session = () if command[0] == "sessions" else (machine.only_session()["id"],)
        ran = machine.run(*command, *session)
        assert ran.returncode == 0, ran.stderr
    assert not RAW.search(ran.stdout + ran.stderr)
    if command[-1] in ("--json", "jsonl"):
        assert "gpj.exe" in json.dumps(lines(ran.stdout), ensure_ascii=False)


def test_a_structured_answer_is_escaped(machine: Machine) -> None:
    schema = machine.workspace / "schema.json"
    schema.write_text('{"type": "object", "properties": {"name": {"type": "string"}}}')
    model = machine.serve({"text": json.dumps({"name": HOSTILE})})
    ran = machine.run("run", "go", "--model", model, "--output-schema", str(schema))
    assert not RAW.search(ran.stdout)
    assert json.loads(ran.stdout) == {"name": HOSTILE}

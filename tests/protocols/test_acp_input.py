"""What is wrong with the input is said in one message, and the talk goes on; stdout holds nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.conftest import Machine

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


def exchange(machine: Machine, *lines: Any, model: str = "") -> list[dict[str, Any]]:
    """What the agent says to these lines, before its input ends."""
    sent = b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )
    done = subprocess.run(
        [sys.executable, "-m", "mainspring", "acp", *(("--model", model) if model else ())],
        cwd=machine.workspace,
        env=machine.environment(),
        input=sent,
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_versions_are_negotiated_and_the_answer_is_golden(machine: Machine) -> None:
    future = {
        **HELLO,
        "params": {"protocolVersion": 9000, "clientCapabilities": {"something": {"new": True}}},
    }
    (answer,) = exchange(machine, future)
    version = answer["result"]["agentInfo"].pop("version")
    assert version
    assert answer == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "protocolVersion": 1,
            "agentInfo": {"name": "mainspring", "title": "mainspring"},
            "agentCapabilities": {
                "loadSession": True,
                "sessionCapabilities": {"list": {}, "resume": {}, "fork": {}, "close": {}, "delete": {}},
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
            },
            "authMethods": [],
        },
    }


def test_each_wrong_line_is_answered_and_the_next_one_is_heard(machine: Machine) -> None:
    wrong: list[tuple[Any, int]] = [
        (b"this is no JSON", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        ([HELLO], -32600),
        ("text", -32600),
        ({"jsonrpc": "2.0", "id": 5}, -32600),
        ({"jsonrpc": "2.0", "id": [], "method": "initialize"}, -32600),
        (
            {"jsonrpc": "2.0", "id": 6, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
            -32600,
        ),
        ({**HELLO, "params": {}}, -32602),
        ({**HELLO, "params": [1]}, -32602),
        ({**HELLO, "method": "session/unheard_of"}, -32601),
    ]
    answers = exchange(machine, *(line for line, _ in wrong), b"", {**HELLO, "id": "last"})
    assert sorted(each["error"]["code"] for each in answers if "error" in each) == sorted(
        code for _, code in wrong
    )
    assert all(each["error"]["message"].endswith(".") for each in answers if "error" in each)
    assert [each["id"] for each in answers if "result" in each] == ["last"]


def test_unknown_notifications_are_passed_over(machine: Machine) -> None:
    unknown = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}}
    answers = exchange(machine, HELLO, unknown, cancel)
    assert [each["id"] for each in answers] == [1]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/prompt", {"sessionId": "none", "prompt": []}, -32002),
        ("session/load", {"sessionId": "none", "cwd": "/", "mcpServers": []}, -32002),
        ("session/load", {"sessionId": "none"}, -32602),
        ("session/list", {"cursor": "none"}, -32602),
        ("authenticate", {"methodId": "none"}, -32602),
    ],
)
def test_what_cannot_be_done_is_said(
    machine: Machine, method: str, params: dict[str, Any], code: int
) -> None:
    answers = exchange(machine, HELLO, {"jsonrpc": "2.0", "id": 2, "method": method, "params": params})
    (error,) = [each["error"] for each in answers if "error" in each]
    assert error["code"] == code


def test_a_new_session_without_a_model_says_how_to_choose_one(machine: Machine) -> None:
    new = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "session/new",
        "params": {"cwd": str(machine.workspace), "mcpServers": []},
    }
    answers = exchange(machine, HELLO, new)
    (error,) = [each["error"] for each in answers if "error" in each]
    assert error["code"] == -32602
    assert error["data"]["remedy"]

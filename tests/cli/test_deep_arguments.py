"""Calls whose arguments are nested as deep as a confused model can nest them."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Machine


def nested(depth: int) -> list[str]:
    return ["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth]


@pytest.mark.parametrize("depth", [101, 900, 3000])
def test_deep_arguments_are_an_error_to_the_model_and_shown_shortened(machine: Machine, depth: int) -> None:
    bodies = [body % deep for deep in nested(depth) for body in ('{"command":"true","x":%s}', '{"text":%s}')]
    calls = [
        {"name": name, "arguments": body} for name, body in zip(("shell", "note") * 2, bodies, strict=True)
    ]
    script = machine.workspace / "script.json"
    script.write_text(json.dumps({"replies": [{"calls": calls}, {"text": "done"}]}))
    ran = machine.run("run", "go", "--model", f"scripted@{script}")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("nested more than 100 deep") == 4
    shown = machine.run("show")
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) < 400
    assert machine.run("export", "--format", "markdown").returncode == 0


def test_brackets_in_texts_are_no_nesting(machine: Machine) -> None:
    script = machine.workspace / "script.json"
    call = {"name": "write", "arguments": json.dumps({"path": "a.txt", "content": '"[{' * 500})}
    script.write_text(json.dumps({"replies": [{"calls": [call]}, {"text": "done"}]}))
    assert machine.run("run", "go", "--model", f"scripted@{script}").returncode == 0
    assert (machine.workspace / "a.txt").read_text() == '"[{' * 500

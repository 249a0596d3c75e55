"""`mainspring checks`: what stands against the files that a session changed."""

from __future__ import annotations

import json

from tests.cli.conftest import Machine


def test_checks_lists_what_stands_and_exits_with_1_when_it_is_an_error(machine: Machine) -> None:
    calls = [
        {"name": "write", "arguments": {"path": name, "content": "x = (\n"}} for name in ("a.py", "b.py")
    ]
    mended = {"name": "shell", "arguments": {"command": "echo 'x = 1' > b.py; echo let > c.jl"}}
    model = machine.serve({"calls": calls}, {"calls": [mended]}, {"text": "Done."})
    assert machine.run("checks").returncode == 2
    ran = machine.run("run", "--mode", "auto", "--model", model, "go")
    assert ran.returncode == 0, ran.stderr
    found = machine.run("checks")
    assert found.returncode == 1
    assert "a.py:1: error" in found.stdout
    assert "b.py: clean (complexity, duplication, imports, secrets, security, syntax)" in found.stdout
    assert "not checked: c.jl" in found.stdout
    as_json = json.loads(machine.run("checks", "--json").stdout)
    assert {file["path"]: len(file.get("findings", ())) for file in as_json["files"]} == {
        "a.py": 1,
        "b.py": 0,
    }

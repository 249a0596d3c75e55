"""`evidence` on the command line, of a real session with the scripted server."""

from __future__ import annotations

import json


def test_lines_with_and_without_evidence_are_told_apart(machine):
    calls = [
        {"calls": [{"name": "write", "arguments": {"path": "m.py", "content": "a = 1\n"}}]},
        {"calls": [{"name": "shell", "arguments": {"command": "python3 m.py"}}]},
        {"calls": [{"name": "write", "arguments": {"path": "n.py", "content": "b = 1 < 2\n"}}]},
        {"text": "Done."},
    ]
    model = machine.serve(*calls)
    done = machine.run(
        "run",
        "Write two files.",
        "--model",
        model,
        "--mode",
        "yolo",
        "--sandbox",
        "none",
        "--max-cost-usd",
        "1",
        "--allow-unpriced",
    )
    assert done.returncode == 0, done.stderr
    told = machine.run("evidence")
    assert told.returncode == 1, told.stderr
    assert "ok     1 +a = 1  [run]" in told.stdout
    assert "??     1 +b = 1 < 2" in told.stdout
    assert "1 lines covered, 0 with something against them, 1 without evidence" in told.stdout
    found = json.loads(machine.run("evidence", "--json").stdout)
    assert {file["path"]: file["uncovered"] for file in found["files"]} == {"m.py": 0, "n.py": 1}
    page = machine.run("evidence", "--html", "-").stdout
    assert '<span class="doubt">none</span>' in page
    assert "b = 1 &lt; 2" in page


def test_the_page_of_a_goal_shows_what_changed_in_the_colours_of_its_evidence(machine):
    calls = [{"name": "write", "arguments": {"path": "n.py", "content": "b = 1 < 2\n"}}]
    options = ("--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1", "--allow-unpriced")
    model = machine.serve({"calls": calls}, {"text": "Done."}, {"text": "Done."}, {"text": "Done."})
    started = machine.run("goal", "start", "Write n.py.", "--file", "n.py", "--model", model, *options)
    page = machine.run("goal", "report", "--html", "-").stdout
    assert "What was changed, and its evidence" in page, started.stderr
    assert "b = 1 &lt; 2" in page
    assert '<span class="doubt">none</span>' in page

"""A small model that can be shown all files whole is asked for whole files, and told nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Machine

WRONG = "### calc.py\n```python\ndef add(a, b):\n    return a * b\n```"
RIGHT = "### calc.py\n```python\ndef add(a, b):\n    return a + b\n```\n### test_calc.py\n```python\n```"
CHEAT = f"{WRONG}\n### test_calc.py\n```python\nimport unittest\n```"
TEST = """import unittest

from calc import add


class Add(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""


def bodies(machine: Machine) -> list[dict[str, Any]]:
    return [json.loads(seen.body) for seen in machine.seen if seen.method == "POST"]


def fill(folder: Path) -> None:
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    (folder / "test_calc.py").write_text(TEST, encoding="utf-8")


def test_each_attempt_is_one_page_that_tells_the_last_failure_and_tests_stay_as_they_are(
    machine: Machine,
) -> None:
    fill(machine.workspace)
    cases = [
        {"contains": "All tests pass.", "replies": [{"text": "It adds now."}] * 2},
        {"contains": "6 != 5", "replies": [{"text": RIGHT}]},
        {"contains": "The files:", "replies": [{"text": CHEAT}]},
    ]
    model = machine.serve(cases=cases)
    task = "`add` in `calc.py` zieht ab. Test: `python3 -m unittest -q`"
    ran = machine.run("run", task, "--model", model, "--profile", "small", "--mode", "auto")
    assert ran.returncode == 0, ran.stderr
    assert "It adds now." in ran.stdout
    assert (machine.workspace / "test_calc.py").read_text(encoding="utf-8") == TEST
    first, second, closing = bodies(machine)
    for body in (first, second):
        (message,) = body["messages"]
        assert message["role"] == "user"
        assert message["content"].count(task) == 1
        assert "You are mainspring" not in message["content"]
    assert "6 != 5" not in first["messages"][0]["content"]
    assert "6 != 5" in second["messages"][0]["content"]
    assert second["temperature"] > 0
    assert "response_format" not in closing
    assert "You are mainspring" not in json.dumps(closing)
    assert task in json.dumps(closing["messages"], ensure_ascii=False)


def test_what_the_users_own_files_tell_stays_before_the_page(machine: Machine) -> None:
    fill(machine.workspace)
    (machine.workspace / "AGENTS.md").write_text("Write in British English.\n", encoding="utf-8")
    model = machine.serve({"text": RIGHT}, {"text": "It adds now."})
    machine.run("run", "`add` zieht ab.", "--model", model, "--profile", "small", "--mode", "auto")
    told, page = (message["content"] for message in bodies(machine)[0]["messages"])
    assert "Write in British English." in told
    assert page.startswith("The files:")


@pytest.mark.parametrize("empty", ["", "\\n"])
def test_a_program_that_writes_nothing_into_the_answer_is_tried_again_and_then_the_file_is_asked_for(
    machine: Machine, empty: str
) -> None:
    (machine.workspace / "units.csv").write_text("name,units\npear,3\nplum,9\n", encoding="utf-8")
    cases = [
        {"contains": "Nothing has changed", "replies": [{"text": "### answer.txt\n```txt\nplum\n```"}] * 2},
        {
            "contains": "Write one Python program",
            "replies": [{"text": f'```python\nopen("answer.txt", "w").write("{empty}")\n```'}],
        },
        {"contains": "The files:", "replies": [{"text": "It is this:\n```python\nplum\n```"}] * 2},
    ]
    model = machine.serve(cases=cases)
    task = "Which name in `units.csv` has the most units? Write it, and nothing else, into `answer.txt`."
    ran = machine.run("run", task, "--model", model, "--profile", "small", "--mode", "auto")
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "answer.txt").read_text(encoding="utf-8") == "plum\n"
    first, second, third, fourth, *_ = bodies(machine)
    assert "Write one Python program" in second["messages"][-1]["content"]
    assert first["messages"] == second["messages"]
    assert second["temperature"] > 0
    for asking in (third, fourth):
        assert "in this form:\n\n### answer.txt\n" in asking["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("text", "is_asked"), [("3\n4.5\n\nkiwi\n", True), ("The pears came late, and were sour.\n", False)]
)
def test_an_answer_from_a_list_is_computed_and_one_from_prose_is_written(
    machine: Machine, text: str, is_asked: bool
) -> None:
    (machine.workspace / "in.txt").write_text(text, encoding="utf-8")
    digit = '```python\nopen("answer.txt", "w").write("3")\n```'
    cases = [
        {"contains": "Write one Python program", "replies": [{"text": digit}, {"text": "It is there."}]},
        {
            "contains": "The files:",
            "replies": [{"text": "### answer.txt\n```txt\n3\n```"}, {"text": "Done."}],
        },
    ]
    ran = machine.run(
        "run",
        "Put it into answer.txt (see in.txt).",
        "--model",
        machine.serve(cases=cases),
        "--profile",
        "small",
        "--mode",
        "auto",
    )
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "answer.txt").read_text(encoding="utf-8").strip() == "3"
    first, *_ = bodies(machine)
    assert ("Write one Python program" in first["messages"][-1]["content"]) is is_asked
    assert "attempt 2" not in ran.stderr

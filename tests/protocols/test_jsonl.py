"""`run --input-format jsonl --json`: a program drives a session, and every line fits the schema."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mainspring.app.operations.control import ControlInput, control_schema
from mainspring.documents.json_lines import as_json
from mainspring.events import STORED, Recorded, Unknown, decode
from tests.cli.conftest import Machine, lines
from tests.protocols.test_acp import call

OUTPUT = Draft202012Validator(control_schema("output"))
INPUT = Draft202012Validator(control_schema("input"))
GOLDEN = Path(__file__).parent.parent / "journals" / "v1"


class Program:
    """A program that drives `run`, line by line."""

    def __init__(self, machine: Machine, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mainspring", "run", "--input-format", "jsonl", "--json", *arguments],
            cwd=machine.workspace,
            env=machine.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seen: list[dict[str, Any]] = []

    def send(self, **given: Any) -> None:
        assert self.process.stdin is not None
        INPUT.validate(given)
        self.process.stdin.write(json.dumps(given) + "\n")
        self.process.stdin.flush()

    def until(self, kind: str) -> dict[str, Any]:
        for line in self._read():
            if line["kind"] == kind:
                return line
        raise AssertionError(f"no {kind} in {[each['kind'] for each in self.seen]}")

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        list(self._read())
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.process.wait()

    def _read(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            line = json.loads(text)
            OUTPUT.validate(line)
            self.seen.append(line)
            yield line


def test_a_program_asks_answers_and_goes_on(machine: Machine) -> None:
    model = machine.serve(call("write", path="made.txt", content="x\n"), {"text": "done"}, {"text": "again"})
    program = Program(machine, "--model", model, "--mode", "ask")
    program.send(type="say", text="write it", id="first")
    assert program.until("InputDone")["id"] == "first"
    asked = program.until("ApprovalAsked")["body"]
    program.send(type="answer", call=asked["call"])
    assert program.until("TurnEnded")["body"]["ending"] == "done"
    program.send(type="effort", effort="high")
    program.send(type="say", text="and again")
    program.until("TurnEnded")
    assert program.end() == 0
    assert (machine.workspace / "made.txt").exists()
    said = "".join(each["body"]["text"] for each in program.seen if each["kind"] == "TextDelta")
    assert said == "doneagain"
    numbers = [each["seq"] for each in program.seen if each.get("seq")]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_task_and_the_end_of_the_input_are_one_turn(machine: Machine) -> None:
    model = machine.serve({"text": "done"})
    done = machine.run("run", "--input-format", "jsonl", "--json", "--model", model, "say it")
    assert done.returncode == 0
    assert lines(done.stdout)[-1]["kind"] == "TurnEnded"


def test_a_question_that_nobody_is_left_to_answer_blocks(machine: Machine) -> None:
    model = machine.serve(call("write", path="made.txt", content="x\n"), {"text": "done"})
    program = Program(machine, "--model", model, "--mode", "ask", "write it")
    program.until("ApprovalAsked")
    assert program.end() == 3


def test_a_turn_can_be_stopped_and_the_session_closed(machine: Machine) -> None:
    model = machine.serve(call("shell", command="sleep 1000"), {"text": "never"})
    program = Program(machine, "--model", model, "run it")
    program.until("CallStarted")
    program.send(type="stop")
    assert program.until("TurnEnded")["body"]["ending"] == "interrupted"
    program.send(type="close")
    assert program.end() == 130


def test_what_is_wrong_is_refused_and_the_next_line_is_heard(machine: Machine) -> None:
    program = Program(machine, "--model", machine.serve({"text": "done"}))
    assert program.process.stdin is not None
    wrong = [
        "no JSON",
        "[]",
        '{"type":"unheard of"}',
        '{"type":"say"}',
        '{"type":"say","text":" "}',
        '{"type":"answer","call":"c1"}',
        '{"type":"continue"}',
        '{"type":"undo"}',
    ]
    for line in wrong:
        program.process.stdin.write(line + "\n")
    program.send(type="say", text="hello", id="last")
    assert program.until("InputDone")["id"] == "last"
    refused = [each for each in program.seen if each["kind"] == "InputRefused"]
    assert len(refused) == len(wrong)
    assert all(each["message"] for each in refused)
    assert program.end() == 0


@pytest.mark.parametrize(
    "option", [["--input-format", "jsonl"], ["--input-format", "jsonl", "--json", "--check", "x"]]
)
def test_options_that_do_not_fit_are_refused(machine: Machine, option: list[str]) -> None:
    assert machine.run("run", *option).returncode == 2


def test_every_kind_of_event_fits_the_schema() -> None:
    kinds: set[str] = set()
    for line in (GOLDEN / "every-kind.jsonl").read_text().splitlines():
        item = json.loads(line)
        if item.get("line") == "event" and "body" in item:
            event = decode(item["kind"], json.dumps(item["body"]).encode())
            if isinstance(event, Unknown):
                continue
            OUTPUT.validate(json.loads(as_json(Recorded(item["seq"], item["time_us"], event))))
            kinds.add(item["kind"])
    assert len(kinds) > 30
    described = control_schema()["$defs"]
    assert {kind.__name__ for kind in STORED} <= set(described)
    assert not OUTPUT.is_valid({"seq": 1, "time": "-", "kind": "CallEnded", "body": {"call": 7}})


def test_the_command_prints_both_schemas(machine: Machine) -> None:
    for side in ("output", "input"):
        assert json.loads(machine.run("schema", side).stdout) == json.loads(json.dumps(control_schema(side)))
    assert len(control_schema("input")["anyOf"]) == len(ControlInput.__args__)

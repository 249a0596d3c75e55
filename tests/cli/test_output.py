"""`run --output-schema`: the answer alone, as JSON, on standard output."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Machine

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def schema(machine: Machine) -> str:
    path = machine.workspace / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


def test_the_answer_is_printed_as_json_and_the_rest_goes_to_standard_error(
    machine: Machine, schema: str
) -> None:
    look = {"text": "I look.", "calls": [{"name": "find", "arguments": {"pattern": "*.json"}}]}
    model = machine.serve(look, {"text": "no JSON"}, {"text": '```json\n{"name": "Ulm"}\n```'})
    ran = machine.run("run", "which city?", "--model", model, "--output-schema", schema)
    assert (ran.returncode, ran.stdout) == (0, '{"name":"Ulm"}\n'), ran.stderr
    assert "I look." in ran.stderr
    sent = machine.seen[0].json()["response_format"]["json_schema"]
    assert sent == {"name": "reply", "schema": SCHEMA, "strict": False}


def test_an_answer_that_does_not_fit_fails_and_prints_nothing(machine: Machine, schema: str) -> None:
    model = machine.serve({"text": "no"}, {"text": '{"name": 1}'})
    ran = machine.run("run", "which city?", "--model", model, "--output-schema", schema)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "$.name: expected string" in ran.stderr


@pytest.mark.parametrize("content", ["{", '["a"]', '{"type": "array"}', '{"type": "object", "if": {}}'])
def test_a_schema_that_cannot_be_used_is_named(content: str, machine: Machine) -> None:
    (machine.workspace / "schema.json").write_text(content)
    ran = machine.run("run", "x", "--model", machine.serve(), "--output-schema", "schema.json")
    assert ran.returncode == 2
    assert "schema" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert machine.seen == []


def test_a_schema_that_is_not_there_is_named(machine: Machine) -> None:
    ran = machine.run("run", "x", "--model", machine.serve(), "--output-schema", "missing.json")
    assert ran.returncode == 2
    assert "missing.json" in ran.stderr

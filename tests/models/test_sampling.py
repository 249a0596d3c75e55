"""A temperature and a seed reach the wires that have a field for them, and what is refused is left out."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.errors import BadRequest
from mainspring.models import Request
from tests.models.every_wire import WIRES, build

REQUEST = Request(system="s", tools=(), messages=(b"{}",), temperature=0.7, seed=2)
PLACES = {
    ("chat", "m"): {"temperature": 0.7, "seed": 2},
    ("gemini", "gemini-3-pro"): {"temperature": 0.7, "seed": 2},
    ("responses", "gpt-4.1"): {"temperature": 0.7},
    ("responses", "gpt-5"): {},
    ("anthropic", "claude-3-5-haiku-latest"): {"temperature": 0.7},
}


@pytest.mark.parametrize(("wire", "model"), PLACES)
def test_it_is_sent_where_the_wire_takes_it(wire: str, model: str) -> None:
    body = msgspec.json.decode(build(wire, model=model).body(REQUEST))
    place = body["generationConfig"] if wire == "gemini" else body
    assert {name: place[name] for name in ("temperature", "seed") if name in place} == PLACES[wire, model]


@pytest.mark.parametrize("wire", WIRES)
def test_nothing_is_sent_unless_it_was_chosen(wire: str) -> None:
    body = build(wire).body(msgspec.structs.replace(REQUEST, temperature=None, seed=None))
    assert b"temperature" not in body
    assert b"seed" not in body


def test_a_model_that_refuses_a_temperature_is_asked_without() -> None:
    model = build("chat")
    model.body(REQUEST)
    assert model.heal(BadRequest("Unsupported value", cause="parameter", param="temperature"))
    body = msgspec.json.decode(model.body(REQUEST))
    assert ("temperature" in body, body["seed"]) == (False, 2)

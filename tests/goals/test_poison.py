"""Files of the agent that are wrong on purpose or by accident: each becomes a note, none an exception."""

from __future__ import annotations

import json

import msgspec
import pytest

from mainspring.evidence.claim_file import is_trivial, parse_claims
from mainspring.evidence.readings import read_file, read_lines
from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]

MANY = b"9" * 5000


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", b'{"\\ud800": 1}'),
        ("a.json", b'{"metric": "a", "value": 1, "unit": "\\ud800"}'),
        ("a.json", b'{"a": ' + MANY + b"}"),
        ("a.json", b"[" * 900_000),
        ("a.csv", b"a\0b,c\n1,\0\n"),
        ("a.csv", b"," * 900_000 + b"\n" + b"1\n" * 500_000),
        ("\udcff.json", b'{"a": 1e999}'),
    ],
)
def test_a_result_file_can_always_be_recorded(name: str, data: bytes) -> None:
    readings = read_file(name, data)
    assert readings.values or readings.notes
    assert msgspec.json.decode(msgspec.json.encode(readings), type=type(readings)) == readings


def test_a_line_of_too_many_digits_or_half_a_character_can_be_recorded() -> None:
    readings = read_lines(f"METRIC a={'9' * 290}\nMETRIC b=1 \ud800\nMETRIC c=1 \0\nMETRIC d={'9' * 5000}")
    assert [item.unit for item in readings.values] == ["?", "?"]
    assert len(readings.notes) == 2
    msgspec.json.encode(readings)


@pytest.mark.parametrize(
    "written",
    [
        b'name = "a"\nstatement = ' + MANY,
        b"name = 0x" + b"f" * 5000 + b'\nstatement = "s"',
        b"name = [0x" + b"f" * 5000 + b']\nstatement = "s"',
        b'name = "a"\nstatement = "s"\nstatus = 0x' + b"f" * 5000,
        b'name = "a"\nstatement = "s"\ncheck = "sh a.sh\\u0000"',
        b'name = "a"\nstatement = "s"\ncheck = "' + b"x" * 200_000 + b'"',
        b"a." * 400_000 + b"b = 1",
        b"a = " + b"[" * 400_000,
    ],
)
def test_a_wrong_claim_is_a_problem_with_a_sentence(written: bytes) -> None:
    claims, problems = parse_claims(b"[[claim]]\n" + written)
    assert problems
    assert all(not claim.check for claim in claims)
    msgspec.json.encode((claims, problems))


@pytest.mark.parametrize(
    ("check", "is_nothing"),
    [
        ("true", True),
        (":", True),
        ("exit 0", True),
        ("echo fine; true # lemma", True),
        ("bash -c 'exit 0'", True),
        ("python lemma.py || true", True),
        ("python lemma.py", False),
        ("echo REFUTED; exit 1", False),
        ("echo $(python lemma.py) | grep yes", False),
        ("cd checks && true && sh a.sh", False),
    ],
)
def test_a_check_that_cannot_fail_proves_nothing(check: str, is_nothing: bool) -> None:
    assert is_trivial(check) is is_nothing
    claims, problems = parse_claims(
        f"[[claim]]\nname = 'a'\nstatement = 's'\ncheck = {json.dumps(check)}".encode()
    )
    assert (claims[0].check, any("proves nothing" in item for item in problems)) == (
        "" if is_nothing else check,
        is_nothing,
    )


def test_a_goal_goes_on_after_half_a_character_in_a_result_file(machine: Machine) -> None:
    write = "printf '%s' '{\"\\ud800\": 1}' > r.json"
    ran = goal(machine, engine(machine, t1=write, other=f"echo {DONE!r}"))
    assert ran.returncode == 0, ran.stderr
    assert machine.run("verify").returncode == 0


def test_a_derivation_without_claims_is_shown_how_to_write_one_and_true_is_no_proof(machine: Machine) -> None:
    claim = (
        "[[claim]]\\nname = \\042a\\042\\nstatement = \\042s\\042\\ncheck = \\042true\\042\\ngoal = true\\n"
    )
    write = f"grep -q '^depends_on = ' <<<\"$prompt\" && printf '{claim}' > projects/claims.toml"
    cases = engine(machine, t1=write, other=f"echo {DONE!r}")
    ran = goal(machine, cases, "--max-refusals", "1", loop="drvloop")
    assert ran.returncode != 0
    (check,) = events(machine, "CheckEnded")
    assert (check["kind"], check["passed"]) == ("claims", False)
    assert "a has no check" in check["detail"] or "proves nothing" in check["detail"]

"""A check of a claim that passes in a wrong version of itself proves nothing."""

from __future__ import annotations

import pytest

from mainspring.events import Claim
from mainspring.evidence.claim_mutants import mutants
from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, events

__all__ = ["machine"]

SUM = "the sum of 1 to 100 is 5050"


def made(statement: str, check: str, **scripts: str) -> dict[str, list[str]]:
    """The wrong versions of a check: what was done, with the texts of the scripts, or the command line."""
    claim = Claim(name="c", statement=statement, check=check)
    texts = {f"{name}.py": text for name, text in scripts.items()}
    return {
        each.what.split(",")[0]: [data.decode() for data in each.contents.values()] or [each.line]
        for each in mutants(claim, texts)
    }


def test_asserts_are_negated_when_nothing_else_can_fail() -> None:
    found = made("it holds", "python c.py", c="assert f(1)\nassert f(2), 'no'\n")
    assert found == {"with every assert negated": ["assert not f(1)\nassert not f(2)"]}
    for other in ("raise SystemExit(g())", "sys.exit(g())", "np.testing.assert_allclose(a, b)"):
        assert made("it holds", "python c.py", c=f"assert f(1)\n{other}\n") == {}


def test_numbers_that_are_asserted_and_given_are_others() -> None:
    found = made(SUM, "python c.py 5050", c="assert sum(range(101)) == 5050\nassert x <= 5050\n")
    assert found["with other numbers in its asserts"] == ["assert sum(range(101)) == 5051\nassert x <= 5050"]
    assert found["as 'python c.py 5051'"] == ["python c.py 5051"]


@pytest.mark.parametrize("statement", ["n is at most 5050", "x ≤ 5050", "about 5050 of them", "x < 5050"])
def test_a_bound_may_be_weaker_and_true(statement: str) -> None:
    assert list(made(statement, "python c.py 5050", c="assert x == 5050")) == ["with every assert negated"]


CHECKS = {
    "asserts that are never reached": ("python3 c.py", "for n in []:\n    assert n == 5050\n", False),
    "an error that is swallowed": (
        "python3 c.py",
        "try:\n    assert 1 + n == 5050\nexcept Exception: pass\n",
        False,
    ),
    "a number that decides nothing": (
        "python3 c.py",
        "s = sum(range(101))\nassert s == s or s == 5050\nassert s > 1\n",
        False,
    ),
    "an argument that is not looked at": (
        "python3 c.py 5050",
        "import sys\nif len(sys.argv) < 2: sys.exit(1)\n",
        False,
    ),
    "a check": ("python3 c.py", "assert sum(range(101)) == 5050\n", True),
    "a check by argument": (
        "python3 c.py 5050",
        "import sys\nsys.exit(sum(range(101)) != int(sys.argv[1]))\n",
        True,
    ),
}


@pytest.mark.parametrize("case", CHECKS)
def test_a_check_that_passes_in_a_wrong_version_proves_nothing(machine: Machine, case: str) -> None:
    line, script, is_proof = CHECKS[case]
    claims = f'[[claim]]\\nname = "main"\\nstatement = "{SUM}"\\ncheck = "{line}"\\ngoal = true\\n'
    (machine.workspace / "c.py").write_text(script)
    work = f"mkdir -p projects; printf '{claims}' > projects/claims.toml; echo {DONE!r}"
    ran = machine.run(
        "drvloop",
        "Prove it",
        "--engine",
        engine(machine, t1=work),
        "--max-iterations",
        "1",
        "--max-refusals",
        "1",
    )
    checked = events(machine, "ClaimChecked")
    assert {item["status"] for item in checked} == {"proved" if is_proof else "open"}, ran.stderr
    assert is_proof or all("does not depend on the claim" in item["detail"] for item in checked)
    assert (machine.workspace / "c.py").read_text() == script

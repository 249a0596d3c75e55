"""The check of a claim is looked at before its word is taken."""

from __future__ import annotations

import pytest

from mainspring.events import Claim
from mainspring.evidence.claim_review import cannot_fail, takes_claim, touches, wrong_statement


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pass",
        "# nothing\n",
        '"""A proof."""\nimport sys\nprint("proved")\nsys.exit(0)',
        "assert True",
        "assert 1 + 1 == 2",
        "x = 1\nassert 2 > 1",
        "def f():\n    pass\n",
    ],
)
def test_a_script_that_cannot_fail_is_told(text: str) -> None:
    assert cannot_fail("check.py", text)


@pytest.mark.parametrize(
    "text",
    [
        "from sympy import *\nassert simplify(x - x) == 0",
        "import mpmath\nfor n in range(9):\n    assert mpmath.zetazero(n).real == 0.5",
        "import sys\nok = len(sys.argv) == 1\nsys.exit(0 if ok else 1)",
        "raise SystemExit(1)",
        "not Python at all",
    ],
)
def test_a_script_that_may_fail_is_taken(text: str) -> None:
    assert cannot_fail("check.py", text) == ""


def test_shell_scripts_are_looked_at_as_well() -> None:
    assert cannot_fail("check.sh", "#!/bin/sh\n# fine\nexit 0\n") == "it is empty"
    assert cannot_fail("check.sh", "test -f proof") == ""


def test_a_check_should_mention_what_it_claims() -> None:
    claim = Claim(name="rh", statement="Every nontrivial zero of zeta has real part 1/2")
    assert not touches(claim, "python3 rh.py\nfrom sympy import sin\nassert sin(0) == 0.0")
    assert touches(claim, "from mpmath import zetazero")
    assert touches(claim, "import os\ncheck(os.environ['CLAIM'])")
    assert touches(Claim(name="a", statement="∀"), "anything")


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        ("1 + 1 = 2", "1 + 1 ≠ 2"),
        ("x <= 3", "x > 3"),
        ("7 is prime", "7 is not prime"),
        ("converges for 3 terms", "converges for 4 terms"),
        ("it commutes", "It is not true that it commutes"),
    ],
)
def test_a_wrong_statement_is_another(statement: str, wrong: str) -> None:
    assert wrong_statement(statement) == wrong


def test_only_a_check_that_reads_the_claim_takes_it() -> None:
    assert takes_claim('python3 check.py "$CLAIM"')
    assert not takes_claim("python3 check.py --CLAIMS")

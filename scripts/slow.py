"""Writes `tests/slow.txt`: the tests that `make test-fast` leaves out, by what `--durations=0` printed.

    .venv/bin/pytest -n 3 --durations=0 -vv > durations.txt; .venv/bin/python scripts/slow.py durations.txt

A test is slow when one of its cases took longer than a second, or all of them more than ten.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).parents[1] / "tests" / "slow.txt"
_LINE = re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown) +(\S+?::\S+?)(?:\[.*)?$", re.MULTILINE)
_MAX_CASE_S, _MAX_TEST_S = 1.0, 10.0


def main() -> None:
    cases: dict[str, list[float]] = defaultdict(list)
    for seconds, name in _LINE.findall(Path(sys.argv[1]).read_text(encoding="utf-8")):
        cases[name].append(float(seconds))
    slow = {name for name, took in cases.items() if max(took) > _MAX_CASE_S or sum(took) > _MAX_TEST_S}
    LIST.write_text("".join(f"{name}\n" for name in sorted(slow)), encoding="utf-8")
    left = sum(sum(took) for name, took in cases.items() if name not in slow)
    print(f"{len(slow)} of {len(cases)} tests are slow; the others take {left:.0f} s in one process")


if __name__ == "__main__":
    main()
